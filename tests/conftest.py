"""Leaves out what takes minutes, unless a person asks for it; says which tests go one after another."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

LONG = "long"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--long", action="store_true", help="run the tests that take minutes too (docs/testing-faults.md)"
    )


def pytest_configure(config: pytest.Config) -> None:
    words = "takes minutes; left out unless --long or -m long asks for it (docs/testing-faults.md)"
    config.addinivalue_line("markers", f"{LONG}: {words}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.pluginmanager.hasplugin("xdist"):
        for item in items:
            item.add_marker(pytest.mark.xdist_group(group_of(item)))
    if config.getoption("--long") or LONG in config.getoption("markexpr").split():
        return
    left_out = [item for item in items if item.get_closest_marker(LONG)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker(LONG)]


def pytest_collection_finish() -> None:
    """Python's search for cycles of objects passes over what is there before the first test.

    Nine thousand tests and all modules stay until the end; looking at them each time took a good part of some
    tests.
    """
    gc.collect()
    gc.freeze()


def group_of(item: pytest.Item) -> str:
    """Tests of one group run in one process, in their order: those of a module, all with a browser, or all others
    that start whole nodes. They wait for most of their time, so that there is one process more than processors.
    """
    folder = item.path.relative_to(Path(__file__).parent).parts[0]
    if item.get_closest_marker("browser"):
        return "browser"
    starts_nodes = item.get_closest_marker("slow") and folder not in ("trainers", "training")
    return "nodes" if starts_nodes or folder == "hosts" else item.nodeid.partition("::")[0]
