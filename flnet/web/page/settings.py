"""The page of the settings: their values, where each value comes from, and changes for the next start of the node."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from quart import Response, request

from flnet.settings import Settings
from flnet.web.api.settings import changed_settings, settings_of
from flnet.web.auth.permissions import Who
from flnet.web.formatting import NONE, one_line
from flnet.web.page.frame import notices, redirect_with_notice, show
from flnet.web.routes import Pages
from flnet.web.translation import Translate, request_translator

HERE = "/view/settings"
MAX_SHOWN = 1500  # characters of a value, and of what a setting is for
pages = Pages()


@pages.get(HERE, Who.OPERATOR)
async def effective(settings: Settings) -> Response:
    """The settings page, for the operator of this node; asks for a new value."""
    changed = changed_settings()
    shown = settings_of(settings, changed.next)
    chosen = [setting for setting in shown if setting.source != "default"]
    wanted = [setting for setting in shown if setting.can_change and setting.name == request.args.get("change")]
    return await show(
        "settings.html",
        settings=shown,
        chosen=chosen,
        waiting=[setting for setting in shown if setting.name in changed.waiting],
        wanted=wanted[0] if wanted else None,
        choices=choices_of(wanted[0].name) if wanted else (),
        words=words_of,
        most=MAX_SHOWN,
        notice=notices().get(request.args.get("notice")),
    )


@pages.post(HERE, Who.OPERATOR)
async def change(form: Mapping[str, str]) -> Any:
    """Change one setting for the next start, or give it its default again."""
    return await redirect_with_notice(_changed(form, request_translator()), HERE)


async def _changed(form: Mapping[str, str], t: Translate) -> str:
    name, value = form.get("name", ""), form.get("value", "").strip()
    is_default = form.get("do") == "default" or not value
    await asyncio.to_thread(changed_settings().change, {name: None if is_default else value})
    return t("{name} is changed. The change takes effect at the next start of the node.", name=one_line(name))


def choices_of(name: str) -> Sequence[str]:
    """The values that a setting may have, if they are few."""
    kind = Settings.model_fields[name].annotation
    return ("true", "false") if kind is bool else tuple(each for each in get_args(kind) if isinstance(each, str))


def words_of(value: Any) -> str:
    """The value of a setting as people read it."""
    if value is None or value in ("", []):
        return NONE
    if isinstance(value, bool):
        return str(value).lower()
    return one_line(", ".join(map(str, value)) if isinstance(value, list) else value, MAX_SHOWN)
