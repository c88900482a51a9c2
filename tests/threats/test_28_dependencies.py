"""Threat 28: a dependency that is not the one that was tried. All are locked, to the bytes of their files."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

import pytest

requirements = pytest.importorskip("packaging.requirements", reason="packaging is not installed")
Requirement: Any = requirements.Requirement

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DIGEST = re.compile(r"--hash=sha256:[0-9a-f]{64}")
PLACES = [
    {"platform_system": system, "sys_platform": system.lower(), "platform_machine": machine, **python}
    for system, machine in (("Linux", "x86_64"), ("Linux", "aarch64"))
    for python in (
        {"python_version": "3.11", "python_full_version": "3.11.9"},
        {"python_version": "3.13", "python_full_version": "3.13.1"},
    )
]


def blocks() -> Iterator[tuple[str, list[str]]]:
    """Each requirement of the lock, and the lines below it."""
    for block in re.split(r"\n(?=\S)", LOCK.strip()):
        first, *rest = (line.rstrip(" \\").strip() for line in block.splitlines())
        yield first, rest


def locked(place: Mapping[str, str]) -> dict[str, str]:
    """The versions that are installed there, by name."""
    found = [Requirement(text) for text, _ in blocks()]
    here = [one for one in found if one.marker is None or one.marker.evaluate(dict(place))]
    assert len({one.name for one in here}) == len(here), "one version of each"
    return {one.name: str(one.specifier).removeprefix("==") for one in here}


def normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def needed(
    names: list[str], place: Mapping[str, str], held: Mapping[str, str], done: set[str], is_locked: bool = True
) -> Iterator[Any]:
    """What these requirements ask for, and what that asks for in turn, as far as it is installed here.

    Args:
        held: the locked versions. An installed package of another version, such as one that came out since, may ask
            for other versions in turn, which say nothing of the lock.
    """
    for text in names:
        one = Requirement(text)
        if one.marker is not None and not one.marker.evaluate({**place, "extra": ""}):
            continue
        if not is_locked:
            one = Requirement(one.name)
        yield one
        if one.name not in done:
            done.add(one.name)
            try:
                is_same = version(one.name) == held.get(normal(one.name))
                yield from needed(requires(one.name) or [], place, held, done, is_same)
            except PackageNotFoundError:  # of another platform
                continue


@pytest.mark.parametrize(
    "place", PLACES, ids=lambda place: f"{place['platform_machine']}-{place['python_version']}"
)
def test_all_that_a_node_needs_is_locked_in_a_version_that_is_allowed(place: dict[str, str]) -> None:
    held = locked(place)
    for one in needed(PROJECT["dependencies"], place, held, set()):
        name = normal(one.name)
        assert name in held, f"{one} is not locked"
        assert one.specifier.contains(held[name]), f"{one}, but {held[name]} is locked"


def test_every_file_has_a_digest_and_nothing_else_is_said() -> None:
    for first, rest in blocks():
        assert re.match(r"[a-z0-9-]+==[0-9][\w.+!]*( ; .*)?$", first), first
        assert rest, f"{first} has no digests"
        assert all(DIGEST.fullmatch(line) for line in rest), first


def test_no_host_and_no_folder_stands_in_the_lock() -> None:
    assert not re.search(r"://|--(extra-)?index|--find-links|file:|/", LOCK)


def test_it_is_documented_why_each_dependency_is_there() -> None:
    rows = re.findall(r"^\| ([\w-]+) \| ", (ROOT / "docs/dependencies.md").read_text(), re.MULTILINE)
    assert rows[rows.index("---") + 1 :] == [Requirement(text).name for text in PROJECT["dependencies"]]
