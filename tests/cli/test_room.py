"""How many nodes fit a machine, and what a person hears where they do not."""

from __future__ import annotations

import pytest

from flnet.cli.room import (
    CHILD_MB,
    FILES,
    FILES_A_PEER,
    FRAMEWORK_MB,
    NODE_MB,
    PLACE_MB,
    SHARED_MB,
    UPDATE_MB,
    Machine,
    settings_for_room,
    this_machine,
)
from flnet.errors import SettingsError, StartError

NUMPY, TORCH = "SMALL_DIGITS", "MNIST"


def test_nodes_that_fit_need_no_other_settings() -> None:
    enough = 100 * (NODE_MB + CHILD_MB)
    assert settings_for_room(NUMPY, 100, Machine(enough), {}) == {}
    assert settings_for_room(TORCH, 10, Machine(10 * (NODE_MB + 10 * UPDATE_MB + FRAMEWORK_MB)), {}) == {}


def test_where_memory_is_short_nodes_train_in_their_own_process() -> None:
    short = 100 * (NODE_MB + CHILD_MB) - 1
    assert settings_for_room(NUMPY, 100, Machine(short), {}) == {"compute": "thread"}
    assert settings_for_room(NUMPY, 100, Machine(short), {"FLNET_COMPUTE": "thread"}) == {}


def test_where_memory_is_short_nodes_with_a_framework_share_one_training_child() -> None:
    node = NODE_MB + 100 * UPDATE_MB
    separate, shared = 100 * (node + FRAMEWORK_MB), 100 * (node + PLACE_MB) + SHARED_MB
    assert settings_for_room(TORCH, 100, Machine(separate), {}) == {}
    for free in (separate - 1, shared):
        assert settings_for_room(TORCH, 100, Machine(free), {}) == {"compute": "shared"}
    assert settings_for_room(TORCH, 100, Machine(shared), {"FLNET_COMPUTE": "shared"}) == {}
    assert settings_for_room(NUMPY, 100, Machine(shared), {"FLNET_COMPUTE": "shared"}) == {}
    with pytest.raises(StartError, match="start 99 at most"):
        settings_for_room(TORCH, 100, Machine(shared - 1), {})
    with pytest.raises(StartError, match=r"need about 25.5 GB"):
        settings_for_room(TORCH, 100, Machine(shared, can_share=False), {})


def test_too_little_memory_is_said_with_how_many_fit() -> None:
    with pytest.raises(
        StartError, match=r"100 nodes with SMALL_DIGITS need about 4.5 GB .* 1.0 GB are free: start 22 at"
    ):
        settings_for_room(NUMPY, 100, Machine(1000), {})
    with pytest.raises(StartError, match=r"need about 25.5 GB .* start 4 at most"):
        settings_for_room(TORCH, 100, Machine(1000, can_share=False), {})
    with pytest.raises(StartError, match=r"start 0 at most"):
        settings_for_room(TORCH, 100, Machine(100), {})


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
