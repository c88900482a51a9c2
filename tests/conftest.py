"""Leaves out the tests that take minutes unless asked for them, groups tests for parallel runs, and fails a run that
leaves temporary files behind."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import settings

from flnet.temporary import remove_abandoned, temporary_folder

LONG = "long"
LONGEST_ID = 100
LONGEST = ("nodes", "threats", "browser")  # groups of tests
START_NODES = frozenset({"cli", "fuzz", "processes", "threats", "web"})  # folders whose slow tests start nodes
ATTACK_NODES = frozenset({"fuzz", "threats"})
OPEN_UNTIL_THE_END = pytest.StashKey[ExitStack]()
LEFT_BEHIND = pytest.StashKey[list[str]]()


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
    if _is_worker():
        # Before numpy is loaded. Threads of matrix products wait for each other by spinning: beside other processes
        # that took most of the time of some tests.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    else:
        config.stash[OPEN_UNTIL_THE_END] = _own_temporary_folder()


def _is_worker() -> bool:
    return "PYTEST_XDIST_WORKER" in os.environ


def _own_temporary_folder() -> ExitStack:
    """Give all processes of this run a folder for temporary files that no other program uses.

    Those that pytest makes for tests stay where they always are, so that one can look into them later.
    """
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    opened = ExitStack()
    os.environ["TMPDIR"] = tempfile.tempdir = str(opened.enter_context(temporary_folder("tests")))
    return opened


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.pluginmanager.hasplugin("xdist"):
        for item in items:
            item.add_marker(pytest.mark.xdist_group(group_of(item)))
        if _is_worker():  # groups begin in this order
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


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Python's search for cycles of objects waits until all tests are there, and then passes over them.

    Eleven thousand tests and all modules stay until the end; looking at them each time took a fifth of the collection
    and a good part of some tests.
    """
    gc.disable()
    if _is_worker() and session.config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        _import_own_share()
    done = yield
    gc.collect()
    gc.freeze()
    gc.enable()
    return done


def _import_own_share() -> None:
    """Import other modules first than the processes beside this one.

    All of them import all modules. In a clean clone pytest rewrites each one first, and keeps that for who comes
    later: in one order, all processes would rewrite all modules at the same time.
    """
    place = Path(__file__).parent
    own, all_processes = int(os.environ["PYTEST_XDIST_WORKER"][2:]), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    for path in sorted(place.rglob("test_*.py"))[own::all_processes]:
        # Whatever keeps a module from being imported will do so again, where pytest tells it.
        with suppress(Exception, pytest.skip.Exception):
            import_module(".".join(path.relative_to(place.parent).with_suffix("").parts))


@pytest.hookimpl(trylast=True)  # after pytest-xdist, which waits for its processes
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that leaves something behind in its temporary folder.

    Nodes that tests killed cannot remove theirs: for these, what the next program does counts.
    """
    _remove_what_libraries_keep()
    if _is_worker():
        return
    remove_abandoned()
    left = session.config.stash[LEFT_BEHIND] = sorted(path.name for path in Path(tempfile.gettempdir()).iterdir())
    if left and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if left := config.stash.get(LEFT_BEHIND, []):
        terminalreporter.section("temporary files that tests left behind", red=True)
        terminalreporter.line("\n".join(left))


def pytest_unconfigure(config: pytest.Config) -> None:
    if not _is_worker():
        config.stash[OPEN_UNTIL_THE_END].close()


def _remove_what_libraries_keep() -> None:
    """Remove what PyTorch and the ONNX runtime keep on purpose, and TensorFlow until this process ends.

    That is of test processes, which import them; training children have folders of their own.
    """
    place = Path(tempfile.gettempdir())
    (place / ".ses").unlink(missing_ok=True)
    for cache in place.glob("torchinductor_*"):
        shutil.rmtree(cache, ignore_errors=True)  # the process beside this one may do so, too
    generated = [module for name, module in sys.modules.items() if name.startswith("__autograph_generated_file")]
    for path in {Path(path) for module in generated for path in (module.__file__, module.__cached__) if path}:
        path.unlink(missing_ok=True)
    with suppress(OSError):  # there is none, or other processes have some in it
        (place / "__pycache__").rmdir()


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
