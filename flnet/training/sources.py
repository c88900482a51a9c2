"""What a trainer's source text says about it, read without running it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

# Keras alone may run on either; it comes with TensorFlow unless the trainer chose otherwise.
_FAMILIES = {"torch": "torch", "tensorflow": "tensorflow", "keras": "tensorflow", "jax": "jax"}
_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")  # where statements hold statements


class UnreadableSource(Exception):
    """A source file that is no Python; the text says where."""


def families(modules: Iterable[str]) -> frozenset[str]:
    """The frameworks among these dotted module names, by family."""
    return frozenset(_FAMILIES[top] for name in modules if (top := name.partition(".")[0]) in _FAMILIES)


def loaded_families() -> frozenset[str]:
    """The frameworks that this process has imported."""
    return families(tuple(sys.modules))


@dataclass(frozen=True)
class Said:
    """What the text of one file says.

    Attributes:
        modules: dotted names that it imports, and names that it imports from them.
        place: what it assigns to DATA_PLACE; empty if nothing.
    """

    modules: frozenset[str]
    place: str


class Sources:
    """Source files, each read once: trainers import much of the same, and every start of a node looks at all."""

    def __init__(self) -> None:
        self._said: dict[Path, Said] = {}
        self._files: dict[Path, bool] = {}

    def frameworks_of(self, path: Path) -> frozenset[str]:
        """The frameworks that a source file imports, or the files beside it that it imports.

        Raises:
            UnreadableSource: the file cannot be read or has a syntax error.
        """
        seen: set[Path] = set()
        names: set[str] = set()
        waiting = [path]
        while waiting:
            file = waiting.pop()
            if file in seen:
                continue
            seen.add(file)
            found = self._read(file).modules
            names |= found
            steps = {step for name in found for step in name.split(".") if step}
            waiting += [beside for step in steps for beside in self._beside(file.parent, step)]
        return families(names)

    def declared_place(self, path: Path) -> str:
        """What a source file assigns to DATA_PLACE: where below FLNET_DATASETS_PATH its data lie, or nothing.

        Raises:
            UnreadableSource: the file cannot be read or has a syntax error.
        """
        return self._read(path).place

    def _read(self, path: Path) -> Said:
        if path not in self._said:
            body = _parsed(path).body
            self._said[path] = Said(frozenset(_imports(body)), _place(body))
        return self._said[path]

    def _beside(self, folder: Path, step: str) -> Iterator[Path]:
        """Files in a folder that this part of an imported name may mean."""
        for file in (folder / f"{step}.py", folder / step / "__init__.py"):
            if file not in self._files:
                self._files[file] = file.is_file()
            if self._files[file]:
                yield file


def _place(body: Iterable[ast.stmt]) -> str:
    for node in body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            named = [target.id for target in node.targets if isinstance(target, ast.Name)]
            if "DATA_PLACE" in named and isinstance(node.value.value, str):
                return node.value.value
    return ""


def _imports(body: Iterable[ast.AST]) -> Iterator[str]:
    """Imports stand among statements only, so expressions, which are most of a file, are not looked at."""
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            yield base
            yield from (f"{base}.{alias.name}".strip(".") for alias in node.names)
        else:
            for field in _BODIES:
                waiting += getattr(node, field, ())


def _parsed(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes(), str(path))
    except SyntaxError as exc:
        raise UnreadableSource(f"{path}, line {exc.lineno}: SyntaxError: {exc.msg}") from exc
    except (OSError, ValueError, RecursionError, MemoryError) as exc:
        raise UnreadableSource(f"{path} cannot be read: {exc}") from exc
