"""Leaves out what takes minutes, unless a person asks for it."""

from __future__ import annotations

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
    if config.getoption("--long") or LONG in config.getoption("markexpr").split():
        return
    left_out = [item for item in items if item.get_closest_marker(LONG)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker(LONG)]
