"""How many nodes fit a machine, and what a person hears where they do not."""

from __future__ import annotations

import pytest

from flnet.cli.room import (
    CHILD_MB,
    FILES,
    FILES_A_PEER,
    FRAMEWORK_MB,
    NODE_MB,
    Machine,
    settings_for_room,
    this_machine,
)
from flnet.errors import SettingsError, StartError

NUMPY, TORCH = "SMALL_DIGITS", "MNIST"


def test_nodes_that_fit_need_no_other_settings() -> None:
    enough = 100 * (NODE_MB + CHILD_MB)
    assert settings_for_room(NUMPY, 100, Machine(enough), {}) == {}
    assert settings_for_room(TORCH, 10, Machine(10 * (NODE_MB + FRAMEWORK_MB)), {}) == {}


def test_where_memory_is_short_nodes_train_in_their_own_process() -> None:
    short = 100 * (NODE_MB + CHILD_MB) - 1
    assert settings_for_room(NUMPY, 100, Machine(short), {}) == {"compute": "thread"}
    assert settings_for_room(NUMPY, 100, Machine(short), {"FLNET_COMPUTE": "thread"}) == {}


def test_too_little_memory_is_said_with_how_many_fit() -> None:
    with pytest.raises(
        StartError, match=r"100 nodes with SMALL_DIGITS need about 6.0 GB .* 1.0 GB are free: start 22 at"
    ):
        settings_for_room(NUMPY, 100, Machine(1000), {})
    with pytest.raises(StartError, match=r"need about 21.5 GB .* start 4 at most"):
        settings_for_room(TORCH, 100, Machine(1000), {})


def test_too_few_open_files_are_said() -> None:
    needed = FILES + 100 * FILES_A_PEER
    assert settings_for_room(NUMPY, 100, Machine(10_000, needed), {}) == {}
    with pytest.raises(
        StartError, match=rf"opens up to {needed} files, and this system allows 256.*ulimit -n {needed}"
    ):
        settings_for_room(NUMPY, 100, Machine(10_000, 256), {})


def test_a_trainer_that_is_not_there_is_said() -> None:
    with pytest.raises(SettingsError, match="NOPE"):
        settings_for_room("NOPE", 10, Machine(10_000), {})


def test_this_machine_has_some_memory() -> None:
    assert this_machine().free_mb > 10
