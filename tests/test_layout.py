"""Holds the layout: which package may import which, no import circles, no code from data, no library's insides."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERED = ("flnet", "trainers", "resources", "manual_testing")
MAX_FUNCTION_LINES = 50

LAYERS = {
    **dict.fromkeys(("text", "installing"), 0),
    **dict.fromkeys(("names", "fingerprints", "joining"), 1),
    **dict.fromkeys(("errors", "networks"), 2),
    "params": 3,
    "protocol": 4,
    **dict.fromkeys(("labels", "aggregation"), 5),
    **dict.fromkeys(("trainer", "vertical_trainer"), 6),
    **dict.fromkeys(("settings", "algorithms", "datasets", "temporary"), 7),
    **dict.fromkeys(("rounds", "membership"), 8),
    **dict.fromkeys(("security", "wire", "store", "compute", "training"), 9),
    "node": 10,
    **dict.fromkeys(("web", "simulation"), 11),
    **dict.fromkeys(("cli", "experiments"), 12),
    "__main__": 13,
}
"""Package (or module of the top) -> layer. A package imports lower layers; `SEES` lists what else it may import."""
SEES = frozenset(
    {
        ("trainer", "datasets"),  # Partition, whose method `parts` plug-ins may call
        ("vertical_trainer", "trainer"),
        ("vertical_trainer", "datasets"),
        ("datasets", "algorithms"),
        ("settings", "algorithms"),
        ("wire", "security"),
        ("compute", "security"),
        ("cli", "experiments"),
    }
)
PURE_UP_TO = 8  # the highest layer without clock, chance, thread, disk or network
# Of these layers, but their work is on disk.
READS_FILES = frozenset({"datasets", "settings", "temporary", "installing"})
PURE_FOREIGN = frozenset({"blake3", "numpy", "pydantic", "pydantic_core"})
_IMPURE = """
    asyncio concurrent ctypes datetime fcntl ftplib getpass glob http imaplib logging mmap multiprocessing os
    platform poplib queue random sched secrets select selectors shutil signal smtplib socket socketserver sqlite3
    ssl subprocess tempfile threading time timeit urllib uuid webbrowser xmlrpc"""
IMPURE = frozenset(_IMPURE.split())
FRAMEWORKS = frozenset({"torch", "tensorflow", "keras", "sklearn", "jax"})
TRAINER_FOREIGN = FRAMEWORKS | {"numpy", "opacus", "scipy", "PIL"}
TRAINERS_SEE = (
    "flnet.text",
    "flnet.trainer",
    "flnet.vertical_trainer",
    "flnet.training",
    "flnet.datasets",
    "flnet.algorithms",
    "flnet.compute.export",
    "flnet.installing",
    "flnet.security.noise",
)
EXPORTED_FOREIGN = ("numpy", "onnxruntime", "PIL")
MANUAL_FOREIGN = frozenset({"httpx", "numpy", "playwright", "rich"})
UNSAFE_MODULES = frozenset({"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"})
_UNSAFE_CALLS = """
    eval exec compile __import__ torch.load yaml.load pandas.read_pickle os.system yaml.unsafe_load
    yaml.full_load pd.read_pickle torch.jit.load torch.hub.load os.popen"""
UNSAFE_CALLS = frozenset(_UNSAFE_CALLS.split())
MODEL_READERS = frozenset({"load_model", "model_from_json", "model_from_config", "deserialize_keras_object"})
UNPACKING = frozenset(  # calls that unpack all there is, wherever the archive says
    {f"{module}.decompress" for module in ("bz2", "gzip", "lzma", "zlib", "zstandard")} | {"shutil.unpack_archive"}
)
UNPACKING_METHODS = frozenset({"extractall", "extract"})


@dataclass(frozen=True)
class Source:
    """One file: its dotted module name, its text, and whether it is an `__init__`."""

    module: str
    text: str
    is_package: bool = False

    @property
    def tree(self) -> ast.Module:
        return _parsed(self.text)

    @property
    def nodes(self) -> list[ast.AST]:
        """Those of the whole tree."""
        return _nodes(self.text)

    @property
    def parts(self) -> list[str]:
        return self.module.split(".")

    @property
    def imports(self) -> tuple[tuple[int, str], ...]:
        """Line and dotted name of every import; `from a import b` gives "a.b", relative names are resolved."""
        return _imports(self)

    def find_imports(self) -> Iterator[tuple[int, str]]:
        """The same, looked for anew."""
        for node in self.nodes:
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = self._absolute(node)
                yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
            elif isinstance(node, ast.Call) and dotted(node.func) in {"importlib.import_module", "import_module"}:
                yield from ((node.lineno, str(a.value)) for a in node.args[:1] if isinstance(a, ast.Constant))

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        package = self.parts if self.is_package else self.parts[:-1]
        return ".".join([*package[: len(package) - node.level + 1], *filter(None, [node.module])])


@cache  # as often as rules ask; names take little memory
def _imports(source: Source) -> tuple[tuple[int, str], ...]:
    return tuple(source.find_imports())


@lru_cache(maxsize=1)  # several rules ask for the same file in turn; all trees at once would take half a gigabyte
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


@lru_cache(maxsize=1)
def _nodes(text: str) -> list[ast.AST]:
    return list(ast.walk(_parsed(text)))


def dotted(node: ast.AST) -> str:
    """`a.b.c` for the expression a.b.c, else nothing."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return ""


def sources(*folders: str) -> list[Source]:
    """All Python files in these folders of the repository."""
    return [_read(path) for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def _read(path: Path) -> Source:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    is_package = parts[-1] == "__init__"
    return Source(".".join(parts[:-1] if is_package else parts), path.read_text("utf-8"), is_package)


def none_of(faults: list[str]) -> None:
    """Fail with all faults, one per line."""
    assert not faults, "\n".join(["", *faults])


def import_faults(source: Source) -> list[str]:
    """Imports that the file's place in the layout forbids."""
    faults = ((line, name, _import_fault(source, name)) for line, name in source.imports)
    return [f"{source.module}:{line}: imports {name}: {fault}" for line, name, fault in faults if fault]


def _import_fault(source: Source, name: str) -> str:
    folder, top = source.parts[0], name.split(".")[0]
    standard = top in sys.stdlib_module_names
    if source.module == "resources.standalone.predict":  # copied into exports, where there is no flnet
        return (
            "" if standard or top in EXPORTED_FOREIGN else f"an export needs {', '.join(EXPORTED_FOREIGN)} alone"
        )
    if folder == "resources":
        return "resources are files, not code"
    if folder == "manual_testing":
        return (
            "" if standard or top in {*MANUAL_FOREIGN, folder} else "speaks HTTP to a node and knows no code of it"
        )
    if folder == "trainers" and top == "flnet":
        return (
            "" if name.startswith(TRAINERS_SEE) else f"trainers import {', '.join(TRAINERS_SEE)} and nothing else"
        )
    if folder == "trainers":
        known = standard or top in {*TRAINER_FOREIGN, "flnet_trainers", "trainers"}
        return "" if known else "trainers use the standard library, numpy and their framework"
    return _flnet_fault(source, name)


def _flnet_fault(source: Source, name: str) -> str:
    top = name.split(".")[0]
    if len(source.parts) == 1:
        return "the root package imports nothing"
    mine = source.parts[1]
    if mine not in LAYERS:
        return f"give {mine} a layer in tests/test_layout.py"
    if top == "flnet":
        return _layer_fault(mine, name.split("."))
    if top in FRAMEWORKS:
        return "frameworks live in trainers/ only"
    if top in {"flnet_trainers", "trainers", "tests", "manual_testing", "benchmarks"}:
        return "flnet finds trainers by name at run time and knows nothing else outside itself"
    if top == "aiohttp":
        return "httpx calls peers, Hypercorn serves"
    if LAYERS[mine] > PURE_UP_TO or mine in READS_FILES:
        return ""
    if top in IMPURE and not name.startswith("urllib.parse"):
        return f"layers 1 to {PURE_UP_TO} see no clock, chance, thread, disk or network"
    if top not in sys.stdlib_module_names and top not in PURE_FOREIGN:
        return f"layers 1 to {PURE_UP_TO} use the standard library, blake3, numpy and pydantic only"
    return ""


def _layer_fault(mine: str, target: list[str]) -> str:
    if len(target) == 1 or target[1].startswith("__version") or target[1] == mine:
        return ""
    theirs = target[1]
    if theirs not in LAYERS:
        return f"{theirs} has no layer"
    if LAYERS[theirs] >= LAYERS[mine] and (mine, theirs) not in SEES:
        return f"layer {LAYERS[mine]} imports lower layers only, {theirs} is layer {LAYERS[theirs]}"
    return ""


def circles(files: list[Source]) -> list[list[str]]:
    """Groups of modules that import each other in a circle."""
    known = {source.module for source in files}
    graph = {source.module: {_module_of(name, known) for _, name in source.imports} for source in files}
    reach = {module: _reachable(module, graph) for module in graph}
    groups = {frozenset(m for m in reach[module] if module in reach[m]) for module in graph}
    return sorted(sorted(group) for group in groups if len(group) > 1)


def _module_of(name: str, known: set[str]) -> str:
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name


def _reachable(start: str, graph: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph.get(waiting.pop(), set()) - seen - {""}
        seen |= new
        waiting += new
    return seen


def unsafe_faults(source: Source) -> list[str]:
    """Ways to run or revive code from data: none is allowed anywhere."""
    faults = [(line, name) for line, name in source.imports if name.split(".")[0] in UNSAFE_MODULES]
    for node in source.nodes:
        if isinstance(node, ast.Call):
            name = dotted(node.func)
            if name in UNSAFE_CALLS:
                faults.append((node.lineno, f"{name}()"))
            faults += [(node.lineno, "allow_pickle") for keyword in node.keywords if _allows_pickle(keyword)]
    return [f"{source.module}:{line}: {what} can run code from data" for line, what in faults]


def _allows_pickle(keyword: ast.keyword) -> bool:
    denied = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
    return keyword.arg == "allow_pickle" and not denied


def unpacking_faults(source: Source) -> list[str]:
    """Calls that read a framework's model files, or unpack without a limit: none in what is shipped."""
    faults = []
    for node in source.nodes:
        if not isinstance(node, ast.Call):
            continue
        name = dotted(node.func)
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name in UNPACKING or method in UNPACKING_METHODS:
            faults.append(f"{source.module}:{node.lineno}: {name or method}() unpacks without a limit")
        if method in MODEL_READERS and name.split(".")[0] in {"keras", "tf", "tensorflow", "onnx"}:
            faults.append(f"{source.module}:{node.lineno}: {name}() makes what a file says")
    return faults


def import_system_faults(source: Source) -> list[str]:
    """Import finders, and attributes that are set through `vars`: nothing of the kind in what is shipped."""
    faults = []
    for node in source.nodes:
        if isinstance(node, ast.Attribute) and dotted(node) in {"sys.meta_path", "sys.path_hooks"}:
            faults.append(f"{source.module}:{node.lineno}: {dotted(node)} changes how modules are imported")
        if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Store):
            continue
        setter = dotted(node.value.func) if isinstance(node.value, ast.Call) else ""
        if setter in {"vars", "globals"}:
            faults.append(f"{source.module}:{node.lineno}: sets an attribute through {setter}")
    return faults


def length_faults(source: Source) -> list[str]:
    """Functions of 50 lines or more, without their docstring."""
    functions = (n for n in source.nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    lengths = ((f.lineno, f.name, function_lines(f)) for f in functions)
    return [
        f"{source.module}:{line}: {name} has {n} lines" for line, name, n in lengths if n >= MAX_FUNCTION_LINES
    ]


def function_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function from `def` to its end, without its docstring."""
    first, last = node.body[0], node.end_lineno or node.lineno
    docstring = isinstance(first, ast.Expr) and ast.get_docstring(node, clean=False) is not None
    return last - node.lineno + 1 - ((first.end_lineno or 0) - first.lineno + 1 if docstring else 0)


def export_faults(source: Source) -> list[str]:
    """What an `__init__` does beyond a docstring and re-exporting a sorted `__all__`."""
    faults, imported, exported = [], set(), None
    for statement in source.tree.body:
        if isinstance(statement, ast.ImportFrom):
            imported |= {a.asname or a.name for a in statement.names if statement.module != "__future__"}
        elif isinstance(statement, ast.Assign) and dotted(statement.targets[0]) == "__all__":
            exported = [str(name) for name in ast.literal_eval(statement.value)]
        elif isinstance(statement, ast.Assign) and dotted(statement.targets[0]) == "__version__":
            imported.add("__version__")
        elif not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            faults.append(f"{source.module}:{statement.lineno}: an __init__ only re-exports")
    if ast.get_docstring(source.tree) is None:
        faults.append(f"{source.module}: say in a docstring what the package is for")
    if set(exported or ()) != imported:
        faults.append(
            f"{source.module}: __all__ and the imports differ in {sorted(set(exported or ()) ^ imported)}"
        )
    return faults


RULES: Mapping[Callable[[Source], list[str]], tuple[str, ...]] = {
    import_faults: LAYERED,
    unsafe_faults: (*LAYERED, "tests", "benchmarks", "docs"),
    unpacking_faults: ("flnet", "trainers", "resources"),
    import_system_faults: ("flnet", "trainers"),
    length_faults: ("flnet", "trainers"),
}
"""Folders in which each rule holds for every file."""


@cache
def broken() -> Mapping[Callable[[Source], list[str]], list[str]]:
    """What each rule finds; a file is parsed once for all of them, which takes most of the time."""
    found: dict[Callable[[Source], list[str]], list[str]] = {rule: [] for rule in RULES}
    for source in sources(*{folder: None for folders in RULES.values() for folder in folders}):
        for rule, folders in RULES.items():
            if source.parts[0] in folders:
                found[rule] += rule(source)
    return found


def test_every_package_imports_lower_layers_only() -> None:
    none_of(broken()[import_faults])


def test_no_modules_import_each_other_in_a_circle() -> None:
    none_of([" <-> ".join(circle) for circle in circles(sources("flnet"))])


def test_nothing_can_turn_data_into_code() -> None:
    none_of(broken()[unsafe_faults])


def test_nothing_is_unpacked_without_a_limit_nor_made_from_a_model_file() -> None:
    none_of(broken()[unpacking_faults])


def test_the_import_system_stays_as_python_made_it() -> None:
    none_of(broken()[import_system_faults])


def test_functions_stay_short() -> None:
    none_of(broken()[length_faults])


def test_every_package_only_re_exports() -> None:
    none_of([fault for s in sources("flnet", "resources") if s.is_package for fault in export_faults(s)])


def test_every_package_is_installed() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    names = {"flnet": "flnet", "trainers": "flnet_trainers", "resources": "flnet_resources"}
    assert listed["package-dir"] == {installed: folder for folder, installed in names.items()}
    packages = [s.parts for s in sources(*names) if s.is_package]
    assert listed["packages"] == sorted(".".join([names[top], *rest]) for top, *rest in packages)
    folders = {path.parent for folder in names for path in (ROOT / folder).rglob("*.py")}
    none_of(
        sorted(f"{f.relative_to(ROOT)} has no __init__.py" for f in folders if not (f / "__init__.py").exists())
    )


# The rules themselves: each of them can fail.


@pytest.mark.parametrize(
    ("module", "line", "fault"),
    [
        ("flnet.params.params", "def f():\n    from flnet.protocol.messages import Peer", "lower layers only"),
        ("flnet.params.params", "from flnet import protocol", "lower layers only"),
        ("flnet.web.app", "from flnet.simulation import cluster", "lower layers only"),
        ("flnet.experiments.plan", "from flnet.cli.output import table", "lower layers only"),
        ("flnet.rounds.job", "import asyncio", "see no clock"),
        ("flnet.rounds.job", "import httpx", "blake3, numpy and pydantic only"),
        ("flnet.wire.http", "import aiohttp", "httpx calls peers"),
        ("flnet.node.performer", 'import importlib\nimportlib.import_module("torch")', "trainers/ only"),
        ("flnet.compute.loader", "from trainers import MNIST", "by name at run time"),
        ("flnet.gossip.swim", "import json", "give gossip a layer"),
        ("trainers.MNIST", "from flnet.params.params import Params", "and nothing else"),
        ("trainers.MNIST", "import httpx", "their framework"),
        ("resources.web.serve", "import json", "files, not code"),
        ("resources.standalone.predict", "from flnet.text import text", "an export needs numpy"),
        ("manual_testing.three_nodes", "from flnet.settings import Settings", "speaks HTTP"),
    ],
)
def test_a_forbidden_import_is_a_fault(module: str, line: str, fault: str) -> None:
    (message,) = [m for m in import_faults(Source(module, line)) if "importlib:" not in m]
    assert fault in message


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        'eval("1")',
        "torch.load(path)",
        "np.load(path, allow_pickle=flag)",
        "archive.extractall(folder)",
        "gzip.decompress(data)",
        "tf.keras.load_model(p)",
        "sys.meta_path.insert(0, f)",
        "vars(module)['a'] = 1",
    ],
)
def test_a_dangerous_call_is_a_fault(text: str) -> None:
    source = Source("flnet.x", text)
    assert len([*unsafe_faults(source), *unpacking_faults(source), *import_system_faults(source)]) == 1


def test_a_circle_a_long_function_and_a_busy_init_are_faults() -> None:
    pair = [Source("flnet.a", "from flnet.b import x"), Source("flnet.b", "import flnet.a")]
    assert circles(pair) == [["flnet.a", "flnet.b"]]
    body = "\n".join(["    x = 1"] * 49)
    assert length_faults(Source("flnet.x", f"def f():\n{body}")) == ["flnet.x:1: f has 50 lines"]
    assert length_faults(Source("flnet.x", f'def f():\n    """{body}"""\n    return 1')) == []
    assert export_faults(Source("flnet.p", '"""P."""\nprint("hello")', is_package=True))
    assert export_faults(Source("flnet.p", '"""P."""\nfrom flnet.p.a import b\n__all__ = []', is_package=True))
