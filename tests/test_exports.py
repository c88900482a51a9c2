"""Becoming public is a decision: what packages export, what is installed, and that each module has its test."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.layout_rules import Source, export_faults, has_behaviour
from tests.test_layout import ROOT, none_of, sources

# Modules without a test file of their own, under the test that drives them from outside, where they are one thing
# with others. A name that could be dropped fails the test: the list never grows old.
DRIVEN_BY = {
    "tests/cli/test_commands.py": ("__main__", "cli.peers", "cli.status", "cli.tables", "cli.watch"),
    "tests/jobs/test_job.py": ("jobs.opening",),
    "tests/node/test_runtime.py": (
        *("node.build", "node.lane", "node.perform"),
        *("node.announcer", "node.post", "node.timers"),
    ),
    "tests/membership/test_announcing.py": ("membership.greeting",),
    "tests/membership/test_members.py": ("membership.state",),
    "tests/messages/test_base.py": ("explaining",),
    "tests/settings/test_sources.py": ("settings.model", "settings.place"),
    "tests/transport/test_http.py": ("transport.receiving",),
    "tests/training/test_pool.py": ("training.api", "training.backend", "training.faults"),
    "tests/training/test_process.py": ("training.local",),
    "tests/web/test_info.py": ("web.answers", "web.app"),
}


def test_every_package_only_exports_a_sorted_list() -> None:
    none_of([fault for s in sources("flnet", "resources") if s.is_package for fault in export_faults(s)])


def test_every_package_is_installed() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    names = {"flnet": "flnet", "trainers": "flnet_trainers", "resources": "flnet_resources"}
    assert listed["package-dir"] == {installed: folder for folder, installed in names.items()}
    there = [s.parts for s in sources(*names) if s.is_package]
    assert listed["packages"] == sorted(".".join([names[top], *rest]) for top, *rest in there)


def test_every_module_lies_in_a_package() -> None:
    folders = {
        path.parent for folder in ("flnet", "trainers", "resources") for path in (ROOT / folder).rglob("*.py")
    }
    none_of(
        sorted(f"{f.relative_to(ROOT)} has no __init__.py" for f in folders if not (f / "__init__.py").exists())
    )


def test_every_module_has_its_own_test() -> None:
    doing = {s.module: s for s in sources("flnet") if not s.is_package and has_behaviour(s)}
    driven = {f"flnet.{name}" for names in DRIVEN_BY.values() for name in names}
    untested = {name for name, source in doing.items() if not _has_test(source)}
    none_of([f"{name} has no test of its own" for name in sorted(untested - driven)])
    none_of([f"{name} needs no exception any more" for name in sorted(driven - untested)])


def test_the_tests_that_drive_others_are_there() -> None:
    none_of([f"{path} is not there, or tests nothing" for path in DRIVEN_BY if not _tests_something(ROOT / path)])


def _has_test(source: Source) -> bool:
    """Whether tests/x/test_y.py stands for flnet/x/y.py."""
    *folders, name = source.parts[1:]
    return _tests_something(ROOT.joinpath("tests", *folders, f"test_{name.strip('_')}.py"))


def _tests_something(path: Path) -> bool:
    return path.exists() and "def test_" in path.read_text("utf-8")


# The rules themselves: each of them can fail.


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('"""P."""\nfrom flnet.p.a import b, c\n__all__ = ["c", "b"]', "not sorted"),
        ('"""P."""\nfrom flnet.p.a import b, c\n__all__ = ["b"]', "differ in ['c']"),
        ('"""P."""\nfrom flnet.p.a import b\n__all__ = ["b", "c"]', "differ in ['c']"),
        ('"""P."""\nfrom flnet.p.a import b', "b is not in __all__"),
        ('"""P."""\nprint("hello")', "only re-exports"),
        ('"""P."""\ndef f(): ...', "only re-exports"),
        ('from flnet.p.a import b\n__all__ = ["b"]', "docstring"),
    ],
)
def test_an_init_that_does_more_is_found(text: str, fault: str) -> None:
    found = export_faults(Source("flnet.p", text, is_package=True))
    assert len(found) == 1
    assert fault in found[0]


def test_constants_come_before_classes_before_functions() -> None:
    text = '"""P."""\nfrom flnet.p.a import Ab, ZZ, c\n__all__ = ["ZZ", "Ab", "c"]'
    assert export_faults(Source("flnet.p", text, is_package=True)) == []


@pytest.mark.parametrize(
    ("text", "does"),
    [
        ("class P(Protocol):\n    def f(self) -> int:\n        ...", False),
        ('class P(Protocol):\n    def f(self) -> int:\n        """Say."""\n        ...', False),
        ("A = 1", False),
        ("def f() -> int:\n    return 1", True),
    ],
)
def test_a_contract_does_nothing_and_needs_no_test(text: str, does: bool) -> None:
    assert has_behaviour(Source("flnet.p", text)) is does
