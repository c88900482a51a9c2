"""Modules that are imported now and run when something of them is asked for."""

from __future__ import annotations

import importlib
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flnet.postponing import postponed

Package = Callable[[str, str], None]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    """`package(name, text)`: a package of this name with a module `rare` of this text."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(name: str, text: str) -> None:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("", encoding="utf-8")
        (tmp_path / name / "rare.py").write_text(text, encoding="utf-8")
        importlib.invalidate_caches()

    return make


def test_a_module_runs_when_something_of_it_is_asked_for_and_once(package: Package) -> None:
    package("pp_first", "import pp_first\npp_first.runs = getattr(pp_first, 'runs', 0) + 1\nvalue = 7\n")
    with postponed("pp_first.rare"):
        import pp_first.rare as rare  # type: ignore[import-not-found]
    assert "value" not in vars(rare)
    assert not hasattr(sys.modules["pp_first"], "runs")
    assert (rare.value, rare.value) == (7, 7)
    assert sys.modules["pp_first"].runs == 1
    assert sys.modules["pp_first"].rare is rare is sys.modules["pp_first.rare"]
    with pytest.raises(AttributeError, match="nothing"):
        _ = rare.nothing


def test_importing_a_name_from_it_asks_at_once_and_an_ordinary_import_does_not(package: Package) -> None:
    package("pp_names", "value = 7\n")
    with postponed("pp_names.rare"):
        rare = importlib.import_module("pp_names.rare")
    assert importlib.import_module("pp_names.rare") is rare
    assert "value" not in vars(rare)
    from pp_names.rare import value  # type: ignore[import-not-found]

    assert value == 7


def test_what_looks_at_every_module_does_not_run_it(package: Package) -> None:
    package("pp_looks", "raise RuntimeError\n")
    with postponed("pp_looks.rare"):
        rare = importlib.import_module("pp_looks.rare")
    assert getattr(rare, "__warningregistry__", None) is None
    assert rare.__name__ == "pp_looks.rare"
    assert str(rare.__file__).endswith("rare.py")


def test_a_failure_is_told_to_who_asked(package: Package) -> None:
    package("pp_fails", "import pp_that_is_nowhere\n")
    with postponed("pp_fails.rare"):
        rare = importlib.import_module("pp_fails.rare")
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="pp_that_is_nowhere"):
            _ = rare.value


def test_a_thread_that_asks_while_another_one_runs_it_waits_for_all_of_it(package: Package) -> None:
    package(
        "pp_threads", "import pp_threads\nfirst = 1\npp_threads.begun.set()\npp_threads.go.wait(30)\nlast = 2\n"
    )
    with postponed("pp_threads.rare"):
        rare = importlib.import_module("pp_threads.rare")
    shared = vars(sys.modules["pp_threads"])
    shared["begun"], shared["go"] = threading.Event(), threading.Event()
    with ThreadPoolExecutor(2) as threads:
        one = threads.submit(lambda: rare.first)
        assert shared["begun"].wait(30)
        other = threads.submit(lambda: rare.last)
        assert not other.done()
        shared["go"].set()
        assert (one.result(30), other.result(30)) == (1, 2)


def test_a_module_that_asks_itself_for_what_it_does_not_have_yet_misses_it(package: Package) -> None:
    package("pp_circle", "import pp_circle.rare as me\nearly = getattr(me, 'late', 'not yet')\nlate = 1\n")
    with postponed("pp_circle.rare"):
        rare = importlib.import_module("pp_circle.rare")
    assert (rare.early, rare.late) == ("not yet", 1)


def test_what_is_not_there_is_missed_as_always_and_other_modules_run_at_once(package: Package) -> None:
    package("pp_others", "value = 7\n")
    with postponed("pp_others.nowhere"):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("pp_others.nowhere")
        assert vars(importlib.import_module("pp_others.rare"))["value"] == 7


def test_afterwards_modules_are_found_as_before(package: Package) -> None:
    package("pp_after", "value = 7\n")
    before = list(sys.meta_path)
    with pytest.raises(RuntimeError), postponed("pp_after.rare"):
        raise RuntimeError
    assert sys.meta_path == before
    assert vars(importlib.import_module("pp_after.rare"))["value"] == 7


def test_a_module_that_is_there_already_stays_as_it_is() -> None:
    code = "import json.decoder as d\nwith postponed(d.__name__):\n import json.decoder\nprint(len(vars(d)) > 9)"
    program = f"from flnet.postponing import postponed\n{code}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "True"
