"""The page of the settings: their values, and where each value comes from."""

from __future__ import annotations

from typing import Any

from quart import Response

from flnet.settings import Settings
from flnet.web.api.settings import settings_of
from flnet.web.auth.permissions import Who
from flnet.web.formatting import NONE, one_line
from flnet.web.page.frame import show
from flnet.web.routes import Pages

MAX_SHOWN = 1000  # characters of a value, and of what a setting is for
pages = Pages()


@pages.get("/view/settings", Who.OPERATOR)
async def effective(settings: Settings) -> Response:
    """The settings page, for the operator of this node."""
    shown = settings_of(settings)
    chosen = [setting for setting in shown if setting.source != "default"]
    return await show("settings.html", settings=shown, chosen=chosen, words=words_of, most=MAX_SHOWN)


def words_of(value: Any) -> str:
    """The value of a setting as people read it."""
    if value is None or value in ("", []):
        return NONE
    if isinstance(value, bool):
        return str(value).lower()
    return one_line(", ".join(map(str, value)) if isinstance(value, list) else value, MAX_SHOWN)
