"""The view of the settings: what this node runs with, and from where each value is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quart import Blueprint, Response

from flnet.settings import Settings
from flnet.web.configuration import settings_of
from flnet.web.view import NONE, text
from flnet.web.views.frame import show


@dataclass(frozen=True)
class SettingView:
    """One setting in words; `default` is empty where it is the value, or none."""

    variable: str
    value: str
    source: str
    default: str
    what_for: str


def settings_view(routes: Blueprint, settings: Settings) -> None:
    """GET /view/settings, for persons of this node: `flnet.web.guard` sees to that."""

    @routes.get("/view/settings")
    async def effective() -> Response:
        seen = views_of(settings)
        return await show("settings.html", settings=seen, chosen=[one for one in seen if one.source != "default"])


def views_of(settings: Settings) -> Sequence[SettingView]:
    """Every setting, in the order in which they are declared."""
    return [
        SettingView(
            one.variable,
            _words(one.value),
            one.source,
            "" if one.default in (one.value, None, "", []) else _words(one.default),
            text(one.description, 1000),
        )
        for one in settings_of(settings)
    ]


def _words(value: Any) -> str:
    if value is None or value in ("", []):
        return NONE
    if isinstance(value, bool):
        return str(value).lower()
    return text(", ".join(map(str, value)) if isinstance(value, list) else value, 1000)
