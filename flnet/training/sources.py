"""What a trainer's source text says about it, read without running it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

# Keras alone may run on either; it comes with TensorFlow unless the trainer chose otherwise.
_FAMILIES = {"torch": "torch", "tensorflow": "tensorflow", "keras": "tensorflow", "jax": "jax"}


class UnreadableSource(Exception):
    """A source file that is no Python; the text says where."""


def families(modules: Iterable[str]) -> frozenset[str]:
    """The frameworks among these dotted module names, by family."""
    return frozenset(_FAMILIES[top] for name in modules if (top := name.partition(".")[0]) in _FAMILIES)


def loaded_families() -> frozenset[str]:
    """The frameworks that this process has imported."""
    return families(tuple(sys.modules))


def frameworks_of(path: Path) -> frozenset[str]:
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
        found = set(_imports(file))
        names |= found
        waiting += [beside for name in found for beside in _beside(file, name)]
    return families(names)


def declared_place(path: Path) -> str:
    """What a source file assigns to DATA_PLACE: where below FLNET_DATASETS_PATH its data lie; empty if nothing.

    Raises:
        UnreadableSource: the file cannot be read or has a syntax error.
    """
    for node in _parsed(path).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            named = [target.id for target in node.targets if isinstance(target, ast.Name)]
            if "DATA_PLACE" in named and isinstance(node.value.value, str):
                return node.value.value
    return ""


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(_parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            yield base
            yield from (f"{base}.{alias.name}".strip(".") for alias in node.names)


def _parsed(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes(), str(path))
    except SyntaxError as exc:
        raise UnreadableSource(f"{path}, line {exc.lineno}: SyntaxError: {exc.msg}") from exc
    except (OSError, ValueError, RecursionError, MemoryError) as exc:
        raise UnreadableSource(f"{path} cannot be read: {exc}") from exc


def _beside(path: Path, name: str) -> Iterator[Path]:
    """Files in the folder of `path` that an import of this dotted name may mean."""
    for step in name.split("."):
        for file in (path.parent / f"{step}.py", path.parent / step / "__init__.py"):
            if step and file.is_file():
                yield file
