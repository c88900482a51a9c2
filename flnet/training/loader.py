"""Trainers: found without running a line of them, and imported one by one in the worker.

The node must know which trainers there are, but it must never import a framework, so finding reads file
names and source text only. Three places are looked through: the trainers that flnet ships, the folder
FLNET_TRAINERS_PATH, and installed packages with an entry point in the group "flnet.trainers". In that folder
a TOML file makes a trainer too: it says what data there are, and the code is flnet's own.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial, reduce
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

from flnet.errors import SettingsError, TrainerError
from flnet.postponing import postponed
from flnet.settings import Settings
from flnet.training.api import Trainer, TrainerFile, TrainerSettings
from flnet.training.faults import in_words
from flnet.training.sources import Sources, UnreadableSource, families

with postponed("flnet.training.methods"):  # a node that trains in a child has no use for them
    from flnet.training import methods
with postponed("flnet.training.own"):  # few have trainers without code
    from flnet.training import own as descriptions

SHIPPED = "flnet_trainers"
GROUP = "flnet.trainers"
_EXTRAS = {"torch", "tensorflow"}  # what flnet can be installed with
_NO_TRAINERS = ("flnet.toml", "pyproject.toml")  # they may lie in the same folder
_LONGEST = 64  # letters of a name
_ID = re.compile(rf"[A-Za-z0-9_]{{1,{_LONGEST}}}")
_Found = tuple[str, Callable[[], TrainerFile]]  # its name, and what reads the rest


def find_trainers(settings: Settings) -> list[TrainerFile]:
    """All trainers that this node may offer, sorted by id; one that cannot be offered says why in `error`.

    Raises:
        SettingsError: FLNET_TRAINERS_PATH is no folder, or FLNET_TRAINERS names what is not there.
    """
    found: dict[str, list[Callable[[], TrainerFile]]] = {}
    sources = Sources()
    for name, look in (*_shipped(sources), *_in_own_folder(settings.trainers_path, sources), *_installed(sources)):
        found.setdefault(name[:_LONGEST], []).append(look)
    if absent := [name for name in settings.trainers if name not in found]:
        known = ", ".join(sorted(found)) or "none"
        raise SettingsError(f"FLNET_TRAINERS names {', '.join(absent)}, but this node has {known}")
    # Only those that are asked for are looked at: reading all of them is a good part of a node's start.
    return [reduce(_twice, (look() for look in found[name])) for name in sorted({*settings.trainers} or found)]


def import_trainer(file: TrainerFile, settings: TrainerSettings, *, again: bool = True) -> Trainer:
    """Import the file and make its trainer, with what the node's method does around it; in the worker only.

    Args:
        again: read a file that lies outside every package anew, as it may have changed; else trainers of several
            nodes in one process are of one class.

    Raises:
        TrainerError: the file is broken, or makes no trainer, or none that the method can do with.
        DataMissing: the trainer has no data.
    """
    if file.error:
        raise TrainerError(file.error)
    try:
        make = getattr(_imported(file, again), file.attribute, None)
        if not callable(make):
            raise TrainerError(f"{file.location} defines no function {file.attribute}(settings)")
        own = (descriptions.read_own(Path(file.location)),) if file.location.endswith(".toml") else ()
        trainer = make(*own, settings)
        if isinstance(trainer, Trainer):
            labelled = methods.with_labels(trainer, settings, file.id)
            return methods.with_method(labelled, settings.method, settings.seed, file.id)
    except TrainerError:
        raise
    except ModuleNotFoundError as exc:
        known = families([exc.name or ""]) & _EXTRAS
        hint = f'pip install "flnet[{min(known)}]"' if known else "it has to be installed on this node too"
        raise TrainerError(f"{in_words(exc, f'trainer {file.id} cannot be loaded')}; {hint}") from exc
    except (Exception, SystemExit) as exc:
        raise TrainerError(in_words(exc, f"trainer {file.id} cannot be loaded")) from exc
    kind = type(trainer).__name__
    raise TrainerError(f"{file.attribute} in {file.location} gave a {kind}; expected a Trainer")


def _shipped(sources: Sources) -> Iterator[_Found]:
    spec = importlib.util.find_spec(SHIPPED)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for name, path in _candidates(Path(folder)):
            yield name, partial(_described, sources, name, path, f"{SHIPPED}.{name}")


def _in_own_folder(folder: Path | None, sources: Sources) -> Iterator[_Found]:
    if folder is None:
        return
    if not folder.is_dir():
        raise SettingsError(f"FLNET_TRAINERS_PATH={folder} is no folder")
    for name, path in _candidates(folder.resolve()):
        yield name, partial(_described, sources, name, path)
    for path in sorted(folder.resolve().glob("*.toml")):
        if not path.name.startswith(("_", ".")) and path.name not in _NO_TRAINERS:
            yield path.stem, partial(_own, sources, path.stem, path)


def _installed(sources: Sources) -> Iterator[_Found]:
    for entry in entry_points(group=GROUP):
        yield entry.name, partial(_packed, sources, entry)


def _packed(sources: Sources, entry: EntryPoint) -> TrainerFile:
    path = _path_of(entry)
    if path is None:
        return TrainerFile(entry.name, entry.value, f"the package of {entry.value} cannot be found")
    return _described(sources, entry.name, path, entry.module, entry.attr or "make_trainer")


def _candidates(folder: Path) -> Iterator[tuple[str, Path]]:
    """Id and source file of everything in a folder that can be a trainer."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith(("_", ".")):
            continue
        if path.suffix == ".py":
            yield path.stem, path
        elif (path / "__init__.py").is_file():
            yield path.name, path / "__init__.py"


def _described(
    sources: Sources, name: str, path: Path, module: str = "", attribute: str = "make_trainer"
) -> TrainerFile:
    if not _ID.fullmatch(name):
        rule = f"{path}: a trainer's name has 1 to 64 letters, digits and underscores"
        return TrainerFile(name[:_LONGEST], str(path), rule, module, attribute)
    try:
        frameworks, place = sources.frameworks_of(path), sources.declared_place(path)
        return TrainerFile(name, str(path), "", module, attribute, frameworks, place)
    except UnreadableSource as exc:
        return TrainerFile(name, str(path), str(exc), module, attribute)


def _own(sources: Sources, name: str, path: Path) -> TrainerFile:
    """A trainer without code: its TOML file is looked at here, and made into a trainer in the worker."""
    if not _ID.fullmatch(name):
        return _described(sources, name, path)
    try:
        own = descriptions.read_own(path)
    except TrainerError as exc:
        return TrainerFile(name, str(path), exc.message)
    return TrainerFile(name, str(path), "", f"{SHIPPED}._own", "make_own", frozenset({"torch"}), own.data)


def _twice(one: TrainerFile, other: TrainerFile) -> TrainerFile:
    """Neither of two namesakes is offered: the mesh would not know which of them a node trains."""
    places = f"{one.location} and {other.location}"
    return TrainerFile(one.id, places, f"two trainers are named {one.id}: {places}; rename or remove one")


def _path_of(entry: EntryPoint) -> Path | None:
    """The source file of an entry point, without importing its package, as find_spec would for a submodule."""
    top, *rest = entry.module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if not rest:
        return Path(spec.origin) if spec.origin else None
    for folder in spec.submodule_search_locations or ():
        base = Path(folder, *rest)
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if path.is_file():
                return path
    return None


def _imported(file: TrainerFile, again: bool) -> ModuleType:
    if file.module:
        return importlib.import_module(file.module)
    path = Path(file.location)
    folder = path.parent.parent if path.name == "__init__.py" else path.parent
    if str(folder) not in sys.path:
        sys.path.append(str(folder))  # last: what lies there may be used, but hides nothing
    name = f"flnet_own_trainer_{file.id}"
    known = sys.modules.get(name)
    if not again and known is not None and known.__file__ == str(path):
        return known
    inside = [str(path.parent)] if path.name == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=inside)
    if spec is None or spec.loader is None:
        raise TrainerError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
