"""GET /settings: the settings of this node and where each value comes from; for the operator."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from flnet.settings import PREFIX, SECRET, Settings, Source
from flnet.web.auth.permissions import Who
from flnet.web.routes import MESH, Api

MASK = "***"
api = Api()


class Setting(BaseModel):
    """One setting: its value, the source of the value, and the default.

    Attributes:
        variable: the environment variable that sets it.
        value: as JSON; folders and shards as text, secrets as ***.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    name: str
    variable: str
    value: bool | int | float | str | list[str] | None
    source: Source
    default: bool | int | float | str | list[str] | None
    description: str


@api.get("/settings", MESH, answer=list[Setting], who=Who.OPERATOR)
async def effective(settings: Settings) -> list[dict[str, Any]]:
    """The settings of this node."""
    return [each.model_dump() for each in settings_of(settings)]


def settings_of(settings: Settings) -> list[Setting]:
    """All settings in the order in which they are declared."""
    return [
        Setting(
            name=name,
            variable=f"{PREFIX}{name.upper()}",
            value=_shown(name, getattr(settings, name)),
            source=settings.source_of(name),
            default=_shown(name, field.default),
            description=field.description or "",
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
