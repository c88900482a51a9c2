"""Leaves out the tests that take minutes unless asked for them, and groups tests for parallel runs."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

LONG = "long"
LONGEST_ID = 100
LONGEST = ("nodes", "threats", "browser")  # groups of tests
START_NODES = frozenset({"cli", "fuzz", "processes", "threats", "web"})  # folders whose slow tests start nodes
ATTACK_NODES = frozenset({"fuzz", "threats"})


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--long", action="store_true", help="run the tests that take minutes too (docs/testing-faults.md)"
    )


def pytest_configure(config: pytest.Config) -> None:
    # No deadline: under load a correct test would fail. Fewer examples than usual, the same ones each time, so that a
    # change is judged by itself; a long run draws more of them, and others each time.
    is_long = bool(config.getoption("--long"))
    settings.register_profile("flnet", deadline=None, max_examples=300 if is_long else 50, derandomize=not is_long)
    settings.load_profile("flnet")
    words = "takes minutes; left out unless --long or -m long asks for it (docs/testing-faults.md)"
    config.addinivalue_line("markers", f"{LONG}: {words}")


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.pluginmanager.hasplugin("xdist"):
        for item in items:
            item.add_marker(pytest.mark.xdist_group(group_of(item)))
        if "PYTEST_XDIST_WORKER" in os.environ:  # groups begin in this order
            items.sort(key=lambda item: group_of(item) not in LONGEST)
    if config.getoption("--long") or LONG in config.getoption("markexpr").split():
        return
    left_out = [item for item in items if item.get_closest_marker(LONG)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker(LONG)]


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Long bytes are no name of a test: a fresh key or the time in an archive differs from process to process."""
    return argname if isinstance(val, bytes) and len(val) > LONGEST_ID else None


def pytest_collection_finish() -> None:
    """Python's search for cycles of objects passes over what is there before the first test.

    Nine thousand tests and all modules stay until the end; looking at them each time took a good part of some
    tests.
    """
    gc.collect()
    gc.freeze()


def group_of(item: pytest.Item) -> str:
    """The tests of one group run in one process, in order: those of a module, all with a browser, all that attack
    whole nodes, or all others that start some. The last three wait for most of their time, so that there are two
    processes more than processors.
    """
    folder = item.path.relative_to(Path(__file__).parent).parts[0]
    if item.get_closest_marker("browser"):
        return "browser"
    if folder == "hosts" or (folder in START_NODES and item.get_closest_marker("slow")):
        return "threats" if folder in ATTACK_NODES else "nodes"
    return item.nodeid.partition("::")[0]
