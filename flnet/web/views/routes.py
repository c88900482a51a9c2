"""All further views of the page, under /view/."""

from __future__ import annotations

from quart import Blueprint

from flnet.node.base import Node
from flnet.settings import Settings
from flnet.web.openapi import describe
from flnet.web.views.api import api_view
from flnet.web.views.data import data_view
from flnet.web.views.findings import findings_views
from flnet.web.views.frame import frame_views
from flnet.web.views.keys import keys_view
from flnet.web.views.models import models_view
from flnet.web.views.predict import predict_view
from flnet.web.views.settings import settings_view


def view_routes(node: Node, settings: Settings) -> Blueprint:
    """Models, predictions, data, keys, settings and the REST API, rendered here; they work without script."""
    routes = Blueprint("view", __name__)
    frame_views(routes, node)
    models_view(routes, node)
    predict_view(routes, node)
    findings_views(routes, node)
    data_view(routes, node, settings)
    keys_view(routes, node)
    settings_view(routes, settings)
    api_view(routes, describe)
    return routes
