"""The settings of this node, where each value comes from, and changes for its next start; for the operator."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, Field
from quart import current_app

from flnet.errors import NoRoom
from flnet.protocol.messages import PersonMessage
from flnet.settings import PREFIX, SECRET, Settings, Source
from flnet.store.changed_settings import ChangedSettings
from flnet.web.auth.permissions import Who
from flnet.web.routes import MESH, Api

MASK = "***"
CHANGED = "flnet.changed_settings"
Value = bool | int | float | Annotated[str, Field(max_length=1000)]
api = Api()


class Setting(BaseModel):
    """One setting: its value, the source of the value, and the default.

    Attributes:
        variable: the environment variable that sets it.
        value: as JSON; folders and shards as text, secrets as ***.
        can_change: whether people may change it on the page and by PATCH /settings: not what an option, a variable or
            the file sets.
        next: the value at the next start of the node.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    name: str
    variable: str
    value: bool | int | float | str | list[str] | None
    source: Source
    default: bool | int | float | str | list[str] | None
    description: str
    can_change: bool = False
    next: bool | int | float | str | list[str] | None = None


class ChangeSettings(PersonMessage):
    """PATCH /settings: change some settings for the next start of the node.

    Attributes:
        settings: the new values, by name; null for the default.
    """

    settings: dict[Annotated[str, Field(max_length=60)], Value | None] = Field(min_length=1, max_length=100)


@api.get("/settings", MESH, answer=list[Setting], who=Who.OPERATOR)
async def effective(settings: Settings) -> list[dict[str, Any]]:
    """The settings of this node."""
    return [each.model_dump() for each in settings_of(settings, changed_settings().next)]


@api.patch("/settings", MESH, answer=list[Setting], refuses=(NoRoom,))
async def change(settings: Settings, asked: ChangeSettings) -> list[dict[str, Any]]:
    """Change settings of this node for its next start."""
    changed = changed_settings()
    await asyncio.to_thread(changed.change, asked.settings)
    return [each.model_dump() for each in settings_of(settings, changed.next)]


def changed_settings() -> ChangedSettings:
    """What people changed of the settings of this node."""
    return cast(ChangedSettings, current_app.extensions[CHANGED])


def settings_of(settings: Settings, following: Settings | None = None) -> list[Setting]:
    """All settings in the order in which they are declared.

    Args:
        following: those of the next start; by default the same.
    """
    return [
        Setting(
            name=name,
            variable=f"{PREFIX}{name.upper()}",
            value=_shown(name, getattr(settings, name)),
            source=settings.source_of(name),
            default=_shown(name, field.default),
            description=field.description or "",
            can_change=settings.can_change(name),
            next=_shown(name, getattr(following or settings, name)),
        )
        for name, field in type(settings).model_fields.items()
    ]


def _shown(name: str, value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if SECRET.search(name):
        return MASK
    if isinstance(value, tuple):
        return [str(entry) for entry in value]
    return value if isinstance(value, int | float | str) else str(value)
