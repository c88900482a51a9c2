"""What people changed of a node's settings on its page: a file in the state folder, which the next start reads."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from flnet.errors import InvalidMessage, NoRoom, SettingsError
from flnet.settings import Settings
from flnet.store.state_folder import UNFINISHED, sync_folder
from flnet.text import text

NAME = "settings.json"


def read_changes(folder: Path) -> Mapping[str, Any]:
    """The changes in a state folder, by name of the setting; empty if there are none.

    Raises:
        SettingsError: the file cannot be read, or is damaged.
    """
    path = folder / NAME
    try:
        changes = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):  # the start of a node says what is wrong with its folder
        return {}
    except OSError as exc:
        raise SettingsError(f"the file {path} cannot be read: {exc.strerror or exc}") from exc
    except (ValueError, RecursionError):
        changes = None
    if not isinstance(changes, dict):
        raise SettingsError(f"the file {path} is damaged: remove it, then settings have their defaults")
    return changes


class ChangedSettings:
    """The settings that a node runs with, and what people changed of them for its next start.

    Attributes:
        next: the settings of the next start.
    """

    def __init__(self, settings: Settings, folder: Path | None = None) -> None:
        """Args:
        settings: that the node runs with.
        folder: the state folder; None keeps changes in memory.
        """
        self._settings = self.next = settings
        self._folder, self._lock = folder, Lock()
        self._changes = dict(read_changes(folder)) if folder is not None else {}

    @property
    def waiting(self) -> Mapping[str, Any]:
        """The new values of what will be otherwise at the next start, by name."""
        names = type(self._settings).model_fields
        values = {name: getattr(self.next, name) for name in names}
        return {name: value for name, value in values.items() if value != getattr(self._settings, name)}

    def change(self, changes: Mapping[str, Any]) -> None:
        """Change settings for the next start. Blocks until they are on the disk.

        Args:
            changes: the new values, by name; None stands for the default.

        Raises:
            InvalidMessage: a setting cannot be changed here, or not to this value; then none is changed.
            NoRoom: the file cannot be written.
        """
        for name in changes:
            if not self._settings.can_change(name):
                raise InvalidMessage(text("{name} cannot be changed on the page", ascii(name[:60])[1:-1]))
        with self._lock:
            kept = {name: value for name, value in {**self._changes, **changes}.items() if value is not None}
            try:
                following = self._settings.with_changes(kept)
                if self._folder is not None:
                    _write(self._folder / NAME, kept)
            except SettingsError as exc:
                raise InvalidMessage(str(exc)) from exc
            except OSError as exc:
                raise NoRoom(text("the change cannot be kept: {reason}", exc.strerror or exc)) from exc
            self._changes, self.next = kept, following


def _write(path: Path, changes: Mapping[str, Any]) -> None:
    unfinished = path.with_suffix(UNFINISHED)
    with unfinished.open("w") as file:
        json.dump(changes, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    sync_folder(path.parent)
