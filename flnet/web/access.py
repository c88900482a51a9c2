"""Who may ask for what: one table of every route and method. What stands in it nowhere is answered to nobody."""

from __future__ import annotations

import re
from collections.abc import Mapping

from flnet.web.endpoint import Who
from flnet.web.endpoints import ENDPOINTS

_VARIABLE = re.compile(r"<[^>]*>|{[^}]*}")
# The pages, their forms and their files; the endpoints of the REST API say it themselves.
PAGES: Mapping[str, Who] = {
    "GET /": Who.ANYONE,
    "GET /web/<name>": Who.ANYONE,
    "GET /web/<stated>/<name>": Who.ANYONE,
    "POST /look": Who.ANYONE,
    "GET /sign-in": Who.ANYONE,
    "POST /sign-in": Who.ANYONE,
    "POST /sign-out": Who.ANYONE,
    "POST /training/trigger/form": Who.PERSONS,
    "POST /training/params/form": Who.PERSONS,
    "POST /training/steer/form": Who.PERSONS,
    "POST /training/schedule/form": Who.PERSONS,
    "GET /view/models": Who.ANYONE,
    "GET /view/models/{trainerId}": Who.ANYONE,
    "POST /view/models/{trainerId}": Who.PERSONS,
    "GET /view/predict": Who.ANYONE,
    "GET /view/predict/{trainerId}": Who.ANYONE,
    "POST /view/predict/{trainerId}": Who.PERSONS,
    "GET /view/labels/{trainerId}": Who.PERSONS,
    "GET /view/groups/{trainerId}": Who.PERSONS,
    "GET /view/data": Who.ANYONE,
    "POST /view/data/{trainerId}": Who.PERSONS,
    "GET /view/keys": Who.ANYONE,
    "POST /view/keys": Who.PERSONS,
    "GET /view/settings": Who.PERSONS,
    "GET /view/api": Who.ANYONE,
}


def plain(path: str) -> str:
    """A path of the table, or a rule of the application, with a star for each of its variables."""
    return _VARIABLE.sub("*", path)


TABLE: Mapping[str, Who] = {
    plain(route): who for route, who in (*PAGES.items(), *((each.route, each.who) for each in ENDPOINTS))
}


def who_may(method: str, rule: str) -> Who | None:
    """Who may use a method of a route; None for one that the table does not know.

    Args:
        method: as it was sent. HEAD is GET without a body, OPTIONS tells nothing that is not public.
        rule: the route that was found, not the path that was sent.
    """
    if method == "OPTIONS":
        return Who.ANYONE
    return TABLE.get(f"{'GET' if method == 'HEAD' else method} {plain(rule)}")
