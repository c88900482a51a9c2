"""Importing a module now and running it later: what few processes ever use then costs them no memory.

Some packages import at their top what they need in rare cases only, such as a web server that could also speak
HTTP/2. Such a module is put in place empty, and fills itself when something of it is asked for the first time.
It helps where modules are imported whole (`import a.b`): `from a.b import c` asks at once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from threading import RLock
from types import ModuleType


@contextmanager
def postponed(*names: str) -> Iterator[None]:
    """While this is open, importing one of these modules runs nothing of it yet.

    Args:
        names: dotted; a package in which a module lies is imported as always.
    """
    finder = _Finder(names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Finder(MetaPathFinder):
    """Finds the modules of these names, each as it would be found without it, with a loader that waits."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = set(names)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The specification of a module that is to wait; None for all others."""
        if fullname not in self._names:
            return None
        self._names.remove(fullname)  # the next search is for the true one
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Waiting(spec.loader)
        return spec


class _Waiting(Loader):
    """Makes the module at once and runs it when it is asked for the first thing that it does not have yet."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the true loader makes it."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Wait (PEP 562)."""
        lock, begun = RLock(), False

        def first(name: str) -> object:
            nonlocal begun
            if name.startswith("__"):  # what looks at all modules, such as a debugger, wants nothing of this one
                raise AttributeError(name)
            with lock:  # one thread runs it; another that asks meanwhile waits for all of it
                if vars(module).get("__getattr__") is first:
                    if begun:  # it asks itself, for what it does not have yet
                        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
                    begun = True
                    try:
                        module.__loader__ = self._loader
                        self._loader.exec_module(module)
                    finally:
                        begun = False  # who asks after a failure hears of its reason again
                    if vars(module).get("__getattr__") is first:
                        del module.__getattr__
            return getattr(module, name)

        module.__getattr__ = first  # type: ignore[method-assign]
