"""What people change of the settings on the page: kept for the next start, and never more than the page may change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flnet.errors import InvalidMessage, NoRoom, SettingsError
from flnet.settings import CHANGEABLE, SECRET, Settings, load_settings
from flnet.store.changed_settings import NAME, ChangedSettings, read_changes


def test_a_change_is_on_the_disk_and_takes_effect_at_the_next_start(tmp_path: Path) -> None:
    settings = load_settings({}, {})
    changed = ChangedSettings(settings, tmp_path)
    changed.change({"wire": "float16", "local_epochs": "3"})
    assert (settings.wire, changed.next.wire, changed.waiting) == (
        "safetensors",
        "float16",
        {"wire": "float16", "local_epochs": 3},
    )
    started = load_settings({}, {}, {}, read_changes(tmp_path))
    assert (started.wire, started.local_epochs, started.source_of("wire")) == ("float16", 3, "page")
    after = ChangedSettings(started, tmp_path)
    assert after.waiting == {}
    after.change({"wire": None})
    assert (after.waiting, read_changes(tmp_path)) == ({"wire": "safetensors"}, {"local_epochs": "3"})


def test_options_variables_and_the_file_beat_the_page() -> None:
    changes = {"wire": "float16", "local_epochs": 3, "keep_rounds": 50, "keep_models": 7}
    settings = load_settings({"wire": "int8"}, {"FLNET_LOCAL_EPOCHS": "5"}, {"keep_rounds": 60}, changes)
    assert (settings.wire, settings.local_epochs, settings.keep_rounds, settings.keep_models) == ("int8", 5, 60, 7)
    names = ("wire", "local_epochs", "keep_rounds", "keep_models", "keep_events", "mesh_key", "no_setting")
    assert [settings.can_change(name) for name in names] == [False, False, False, True, True, False, False]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mesh_key": "a" * 20}, "mesh_key cannot be changed on the page"),
        ({"state_path": "/tmp"}, "state_path cannot be changed"),
        ({"no\n": 1}, r"no\\n cannot be changed"),
        ({"wire": "smoke"}, "wire .*=smoke: Input should be"),
        ({"keep_models": 5, "local_epochs": 0}, "local_epochs .*=0: "),
        ({"model_choice": ["local"]}, "model_choice"),
    ],
)
def test_what_cannot_be_changed_is_refused_as_a_whole(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    changed = ChangedSettings(load_settings({}, {}), tmp_path)
    with pytest.raises(InvalidMessage, match=words):
        changed.change(changes)
    assert (changed.waiting, list(tmp_path.iterdir())) == ({}, [])


def test_a_change_that_contradicts_another_setting_is_refused() -> None:
    settings = load_settings({"rounds": "asynchronous"}, {})
    with pytest.raises(InvalidMessage, match="FLNET_ROUNDS=asynchronous has no average"):
        ChangedSettings(settings).change({"personal_model": "increment"})


def test_a_disk_that_is_full_is_told_and_changes_nothing(tmp_path: Path) -> None:
    changed = ChangedSettings(load_settings({}, {}), tmp_path / "gone")
    with pytest.raises(NoRoom, match="the change cannot be kept"):
        changed.change({"wire": "int8"})
    assert changed.waiting == {}


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b"{", b"[" * 100_000])
def test_a_damaged_file_is_told_with_its_path(content: bytes, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(SettingsError, match=f"{NAME} is damaged: remove it"):
        read_changes(tmp_path)


def test_a_file_that_names_another_setting_starts_no_node(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(json.dumps({"trust_loopback": True, "listen_address": "0.0.0.0"}))
    with pytest.raises(SettingsError, match="trust_loopback cannot be changed on the page; listen_address cannot"):
        load_settings({}, {}, {}, read_changes(tmp_path))


def test_the_page_changes_what_concerns_this_node_alone() -> None:
    fields = Settings.model_fields
    assert fields.keys() >= CHANGEABLE
    for name in CHANGEABLE:
        words = fields[name].description or ""
        assert "must be the same on all" not in words.lower() and not SECRET.search(name), name
        assert not name.endswith(("_path", "_file", "address", "_port", "networks", "hosts", "peers")), name
