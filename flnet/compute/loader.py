"""Finds trainers without running a line of their code, and imports a trainer in the training child.

The node has to know which trainers there are, but must never import a framework. So finding reads file names and source
text only (`Sources`). Three places are searched: the trainers shipped with flnet, the folder FLNET_TRAINERS_PATH, and
installed packages with an entry point in the group "flnet.trainers". In that folder a TOML file is a trainer too: it
describes data, and the code is flnet's own.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

from flnet.algorithms.fed_mt import local_training as methods
from flnet.algorithms.registry import with_method
from flnet.compute.checks import in_words
from flnet.compute.vertical import VerticalHost
from flnet.datasets import no_code as descriptions
from flnet.errors import SettingsError, TrainerError
from flnet.installing import install
from flnet.security.noise import SecretNormal
from flnet.settings import Settings
from flnet.text import joined, text
from flnet.trainer import DataInfo, Trainer, TrainerFile, TrainerSettings
from flnet.vertical_trainer import VerticalTrainer

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
    return families(name for name in _FAMILIES if name in sys.modules)  # asked for after every call


@dataclass(frozen=True)
class SourceFacts:
    """Facts that are read from the source text of one file.

    Attributes:
        modules: dotted names that it imports, and names that it imports from them.
        constants: texts that it assigns to DATA_PLACE, DATA_READER, DATA_OPTIONS, LABEL, KIND and OFFERED.
    """

    modules: frozenset[str]
    constants: Mapping[str, str]


class Sources:
    """Source files, each read once: trainers import the same modules, and every start of a node looks at all trainers."""

    def __init__(self) -> None:
        self._facts: dict[Path, SourceFacts] = {}
        self._files: dict[Path, bool] = {}

    def frameworks_of(self, path: Path) -> frozenset[str]:
        """The frameworks that a source file imports, directly or through files in the same folder.

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
            imported = self._read(file).modules
            names |= imported
            steps = {step for name in imported for step in name.split(".") if step}
            waiting += [beside for step in steps for beside in self._beside(file.parent, step)]
        return families(names)

    def constants_of(self, path: Path) -> Mapping[str, str]:
        """The texts that a source file assigns to names of CONSTANTS, as far as it does.

        Raises:
            UnreadableSource: the file cannot be read or has a syntax error.
        """
        return self._read(path).constants

    def _read(self, path: Path) -> SourceFacts:
        if path not in self._facts:
            body = _parsed(path).body
            self._facts[path] = SourceFacts(frozenset(_imports(body)), dict(_constants(body)))
        return self._facts[path]

    def _beside(self, folder: Path, step: str) -> Iterator[Path]:
        """Files in a folder that this part of an imported name may refer to."""
        for file in (folder / f"{step}.py", folder / step / "__init__.py"):
            if file not in self._files:
                self._files[file] = file.is_file()
            if self._files[file]:
                yield file


def _constants(body: Iterable[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Names of CONSTANTS and the texts assigned to them: plain ones, or `text("...")`."""
    for node in body:
        if not isinstance(node, ast.Assign):
            continue
        value: ast.expr = node.value
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "text":
            value = value.args[0] if len(value.args) == 1 else value
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            yield from ((name, value.value) for name in names if name in CONSTANTS)


def _imports(body: Iterable[ast.AST]) -> Iterator[str]:
    """Names that are imported. Imports are statements, so expressions, which are most of a file, are skipped."""
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
        raise UnreadableSource(text("{path} cannot be read: {reason}", path, exc)) from exc


CONSTANTS = ("DATA_PLACE", "DATA_READER", "LABEL", "KIND", "DATA_OPTIONS", "OFFERED")
NAMED = "named"  # value of OFFERED: only where FLNET_TRAINERS names the trainer
SHIPPED = "flnet_trainers"
GROUP = "flnet.trainers"
_EXTRAS = {"torch", "tensorflow"}  # what flnet can be installed with
_NO_TRAINERS = ("flnet.toml", "pyproject.toml")  # they may lie in the same folder
_LONGEST = 64  # letters of a name
_ID = re.compile(rf"[A-Za-z0-9_]{{1,{_LONGEST}}}")
_Found = tuple[str, Callable[[], TrainerFile]]  # its name, and what reads the rest


def own_trainers_folder(settings: Settings) -> Path:
    """The folder into which descriptions of no-code trainers are written while a node runs."""
    return settings.trainers_path or settings.folder / "own-trainers"


def find_trainers(settings: Settings, *, every: bool = False) -> list[TrainerFile]:
    """The trainers that this node offers, sorted by id; one that cannot be offered says why in `error`.

    Args:
        every: also those for research where FLNET_TRAINERS names none.

    Raises:
        SettingsError: FLNET_TRAINERS_PATH is no folder, or FLNET_TRAINERS names what is not there.
    """
    readers: dict[str, list[Callable[[], TrainerFile]]] = {}
    sources = Sources()
    own = (
        _in_own_folder(settings.trainers_path, sources)
        if settings.trainers_path
        else _descriptions(own_trainers_folder(settings), sources)
    )
    for name, look in (*_shipped(sources), *own, *_installed(sources)):
        readers.setdefault(name[:_LONGEST], []).append(look)
    if absent := [name for name in settings.trainers if name not in readers]:
        known = ", ".join(sorted(readers)) or text("none")
        raise SettingsError(
            text("FLNET_TRAINERS names {names}, but this node has {known}", ", ".join(absent), known)
        )
    # Only those that are asked for are looked at: reading all of them is a good part of a node's start.
    found = [
        reduce(_twice, (look() for look in readers[name])) for name in sorted({*settings.trainers} or readers)
    ]
    return [file for file in found if every or settings.trainers or not file.is_for_research]


def read_data(file: TrainerFile, settings: TrainerSettings) -> DataInfo | None:
    """The data of a trainer, read without its framework; None if nothing says how, or nodes label differently.

    Raises:
        TrainerError: the file is broken, or its data cannot be read.
        DataMissing: the trainer has no data.
    """
    if file.error:
        raise TrainerError(file.error)
    if settings.labels is not None:
        return None
    try:
        if file.location.endswith(".toml"):
            return own_data(descriptions.read_own(Path(file.location)), settings)
        if not file.reader or not file.module:
            return None
        place, _, function = file.reader.partition(":")
        module = importlib.import_module(f"{file.module.rpartition('.')[0]}.{place}")
        info = getattr(module, function)(settings).info
    except TrainerError:
        raise
    except Exception as exc:
        raise TrainerError(in_words(exc, text("the data of trainer {trainer} cannot be read", file.id))) from exc
    return info if isinstance(info, DataInfo) else None


def own_data(own: descriptions.AnyOwn, settings: TrainerSettings) -> DataInfo | None:
    """The data that a description names; None for columns of a vertical job.

    Raises:
        TrainerError: they cannot be read so.
        DataMissing: there are none, or too few.
    """
    from flnet.datasets.no_code_images import load_images  # noqa: PLC0415 - a node never reads data itself
    from flnet.datasets.no_code_table import load_table  # noqa: PLC0415

    if isinstance(own, descriptions.OwnColumns):
        return None
    if isinstance(own, descriptions.OwnImages):
        return load_images(own, settings).info
    return load_table(own, settings).info


def import_trainer(file: TrainerFile, settings: TrainerSettings, *, again: bool = True) -> Trainer:
    """Import the file and make its trainer, with what the node's method does around it; in the worker only.

    Args:
        again: import a file outside of all packages again, because it may have changed; otherwise the trainers of
            several nodes in one process share a class.

    Raises:
        TrainerError: the file is broken, or makes no trainer, or none that the method can do with.
        DataMissing: the trainer has no data.
    """
    if file.error:
        raise TrainerError(file.error)
    _check_place(file, settings)
    try:
        make = getattr(_imported(file, again), file.attribute, None)
        if not callable(make):
            raise TrainerError(text("{path} defines no function {name}(settings)", file.location, file.attribute))
        own = (descriptions.read_own(Path(file.location)),) if file.location.endswith(".toml") else ()
        trainer = make(*own, settings)
        if isinstance(trainer, VerticalTrainer) and file.kind == "vertical":
            return VerticalHost(trainer, file.id, noise=SecretNormal(settings.state_path))
        if isinstance(trainer, Trainer) and file.kind == "horizontal":
            labelled = methods.with_labels(trainer, settings, file.id)
            return with_method(labelled, settings.method, settings.seed, file.id)
    except TrainerError:
        raise
    except ModuleNotFoundError as exc:
        known = families([exc.name or ""]) & _EXTRAS
        hint = install(min(known)) if known else text("it has to be installed on this node too")
        raise TrainerError(
            joined([in_words(exc, text("trainer {trainer} cannot be loaded", file.id)), hint])
        ) from exc
    except (Exception, SystemExit) as exc:
        raise TrainerError(in_words(exc, text("trainer {trainer} cannot be loaded", file.id))) from exc
    kind = type(trainer).__name__
    raise TrainerError(
        text("{name} in {path} gave a {kind}; expected a Trainer", file.attribute, file.location, kind)
        if file.kind == "horizontal"
        else text(
            "{name} in {path} gave a {kind}; expected a VerticalTrainer", file.attribute, file.location, kind
        )
    )


def _check_place(file: TrainerFile, settings: TrainerSettings) -> None:
    """Find out that a trainer has no data before its framework is imported, which takes seconds and much memory.

    Only where nothing lies in its place: else its data would be read twice.

    Raises:
        DataMissing: it has no data.
    """
    folder = settings.datasets_path
    if file.frameworks and file.place and (folder is None or not (folder / file.place).exists()):
        read_data(file, settings)


def _shipped(sources: Sources) -> Iterator[_Found]:
    spec = importlib.util.find_spec(SHIPPED)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for name, path in _candidates(Path(folder)):
            yield name, partial(_described, sources, name, path, f"{SHIPPED}.{name}")


def _in_own_folder(folder: Path, sources: Sources) -> Iterator[_Found]:
    if not folder.is_dir():
        raise SettingsError(text("FLNET_TRAINERS_PATH={folder} is no folder", folder))
    for name, path in _candidates(folder.resolve()):
        yield name, partial(_described, sources, name, path)
    yield from _descriptions(folder, sources)


def _descriptions(folder: Path, sources: Sources) -> Iterator[_Found]:
    """The no-code trainers of a folder, which need not be there."""
    for path in sorted(folder.resolve().glob("*.toml")):
        if not path.name.startswith(("_", ".")) and path.name not in _NO_TRAINERS:
            yield path.stem, partial(_own, sources, path.stem, path)


def _installed(sources: Sources) -> Iterator[_Found]:
    for entry in entry_points(group=GROUP):
        yield entry.name, partial(_packed, sources, entry)


def _packed(sources: Sources, entry: EntryPoint) -> TrainerFile:
    path = _path_of(entry)
    if path is None:
        return TrainerFile(entry.name, entry.value, text("the package of {name} cannot be found", entry.value))
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
        rule = text("{path}: a trainer's name has 1 to 64 letters, digits and underscores", path)
        return TrainerFile(name[:_LONGEST], str(path), rule, module, attribute)
    try:
        frameworks = sources.frameworks_of(path)
        constants = sources.constants_of(path)
        place, reader, label, kind, options, offered = (constants.get(name, "") for name in CONSTANTS)
        if kind not in ("", "horizontal", "vertical"):
            raise UnreadableSource(
                text('{path}: KIND is "horizontal" or "vertical", not {kind}', path, repr(kind))
            )
        if kind == "vertical":
            attribute = "make_vertical_trainer" if attribute == "make_trainer" else attribute
            return TrainerFile(
                name, str(path), "", module, attribute, frameworks, place, reader, label, "vertical"
            )
        if offered not in ("", NAMED):
            raise UnreadableSource(
                text('{path}: OFFERED is "{value}" or not there, not {came}', path, NAMED, repr(offered))
            )
        facts, is_for_research = (frameworks, place, reader, label), offered == NAMED
        return TrainerFile(
            name, str(path), "", module, attribute, *facts, options=options, is_for_research=is_for_research
        )
    except UnreadableSource as exc:
        return TrainerFile(name, str(path), str(exc), module, attribute)


def own_trainer(path: Path) -> TrainerFile:
    """The no-code trainer of a file that was written while the node runs; `error` says what is wrong with it."""
    return _own(Sources(), path.stem, path)


def _own(sources: Sources, name: str, path: Path) -> TrainerFile:
    """A no-code trainer: its TOML file is checked here, and made into a trainer in the training child."""
    if not _ID.fullmatch(name):
        return _described(sources, name, path)
    try:
        own = descriptions.read_own(path)
    except TrainerError as exc:
        return TrainerFile(name, str(path), exc.message)
    if isinstance(own, descriptions.OwnColumns):
        made_by = (f"{SHIPPED}._own_columns", "make_own_columns", frozenset[str](), own.data)
        return TrainerFile(name, str(path), "", *made_by, label=own.label, kind="vertical")
    return TrainerFile(
        name, str(path), "", f"{SHIPPED}._own", "make_own", frozenset({"torch"}), own.data, label=own.label
    )


def _twice(file: TrainerFile, other: TrainerFile) -> TrainerFile:
    """Offer neither of two trainers with one name: the mesh could not know which of them a node trains."""
    places = f"{file.location} and {other.location}"
    return TrainerFile(
        file.id, places, text("two trainers are named {name}: {places}; rename or remove one", file.id, places)
    )


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
        raise TrainerError(text("{path} cannot be imported", path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
