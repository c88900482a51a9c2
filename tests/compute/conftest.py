"""Compute queues, closed after each test; what thread mode changes in this process is put back."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flnet.compute.training_child import running_fork_server
from tests.compute.bench import PLUGINS, Bench

MakeBench = Callable[..., Bench]


@pytest.fixture(params=["process", "thread"])
def compute(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    interval, environment = sys.getswitchinterval(), dict(os.environ)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    sys.setswitchinterval(interval)
    os.environ.clear()
    os.environ.update(environment)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the trainer TINY, and room for more."""
    target = tmp_path / "own"
    target.mkdir()
    shutil.copy(PLUGINS / "TINY.py", target)
    return target


@pytest.fixture(scope="session")
def shared_server() -> Iterator[Path | None]:
    """A fork server for all tests: its children are there in milliseconds."""
    with running_fork_server() as path:
        yield path


@pytest.fixture
async def bench(folder: Path, request: pytest.FixtureRequest) -> AsyncIterator[MakeBench]:
    """Makes queues; their children come from the shared fork server unless the test names another one, or None."""
    made: list[Bench] = []

    def make(compute: str = "process", **settings: Any) -> Bench:
        if compute == "process" and "fork_server" not in settings:
            settings["fork_server"] = request.getfixturevalue("shared_server")
        made.append(Bench(folder, compute, **settings))
        return made[-1]

    yield make
    for one in made:
        await one.close()
