"""The page of the settings: their values, and where each value comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quart import Response

from flnet.settings import Settings
from flnet.web.api.settings import settings_of
from flnet.web.auth.permissions import Who
from flnet.web.formatting import NONE, one_line
from flnet.web.page.frame import show
from flnet.web.routes import Pages

pages = Pages()


@dataclass(frozen=True)
class SettingView:
    """One setting in words; `default` is empty where it is the value, or none."""

    variable: str
    value: str
    source: str
    default: str
    what_for: str


@pages.get("/view/settings", Who.OPERATOR)
async def effective(settings: Settings) -> Response:
    """What this node runs with, for its operator."""
    seen = views_of(settings)
    return await show(
        "settings.html", settings=seen, chosen=[setting for setting in seen if setting.source != "default"]
    )


def views_of(settings: Settings) -> Sequence[SettingView]:
    """Every setting, in the order in which they are declared."""
    return [
        SettingView(
            setting.variable,
            _words(setting.value),
            setting.source,
            "" if setting.default in (setting.value, None, "", []) else _words(setting.default),
            one_line(setting.description, 1000),
        )
        for setting in settings_of(settings)
    ]


def _words(value: Any) -> str:
    if value is None or value in ("", []):
        return NONE
    if isinstance(value, bool):
        return str(value).lower()
    return one_line(", ".join(map(str, value)) if isinstance(value, list) else value, 1000)
