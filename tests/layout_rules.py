"""The rules of the layout, as functions from source text to the violations in it; test_layout.py applies them."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

MAX_FILE_LINES = 300
MAX_FUNCTION_LINES = 50

LAYERS = {
    **dict.fromkeys(("contributions", "digests", "errors", "names", "networks", "postponing", "spoken"), 1),
    **dict.fromkeys(("blob", "explaining", "fingerprints", "halves", "params", "refusals", "setting_types"), 2),
    **dict.fromkeys(
        ("comparing", "labels", "lbfgs", "merging", "messages", "packing", "settings", "tensorfile", "weighing"), 3
    ),
    **dict.fromkeys(("blockwise", "clusters", "coarse", "events", "effects", "privacy", "signing", "vectors"), 4),
    **dict.fromkeys(("strategies", "screening", "trust", "personal", "topologies", "policies"), 5),
    **dict.fromkeys(("membership", "rounds"), 6),
    "jobs": 7,
    **dict.fromkeys(("codec", "keys", "transport", "store", "training"), 8),
    "node": 9,
    **dict.fromkeys(("web", "simulation"), 10),
    **dict.fromkeys(("cli", "experiments"), 11),
    "__main__": 12,
}
SEES = frozenset({("cli", "experiments")})  # of one layer, and never the other way round
PURE_UP_TO = 7  # the highest layer that touches neither clock, chance, disk nor network
ADAPTERS = 8  # they know the data (up to layer 5), not the conversation (rounds and jobs)
ADAPTERS_SEE_UP_TO = 5
TWINS = frozenset({"codec", "transport", "store", "strategies"})  # versions of one interface: apart, except for
_COMMON = """
    base bounding clipping counting faults forecast lean_import limits nearest outgoing pace places ranges
    receiving remembering scores sealing session straight"""
COMMON = frozenset(_COMMON.split())  # the modules of these names
APART = frozenset(
    {frozenset({"training.local", "training.process"}), frozenset({"rounds.averaging", "rounds.exchange"})}
)

PURE_FOREIGN = frozenset({"blake3", "numpy", "pydantic", "pydantic_core"})
_IMPURE = """
    asyncio concurrent ctypes datetime fcntl ftplib getpass glob http imaplib logging mmap multiprocessing os
    platform poplib queue random sched secrets select selectors shutil signal smtplib socket socketserver sqlite3
    ssl subprocess tempfile threading time timeit urllib uuid webbrowser xmlrpc"""
IMPURE = frozenset(_IMPURE.split())
MACHINERY = frozenset({"postponing"})  # runs modules, which any thread may ask for
FRAMEWORKS = frozenset({"torch", "tensorflow", "keras", "sklearn", "jax"})
TRAINER_FOREIGN = FRAMEWORKS | {"numpy", "scipy", "PIL"}
MANUAL_FOREIGN = frozenset({"httpx", "numpy", "playwright", "rich"})
UNSAFE_MODULES = frozenset({"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"})
UNSAFE_CALLS = frozenset(
    {"eval", "exec", "compile", "__import__", "torch.load", "yaml.load", "pandas.read_pickle", "os.system"}
) | frozenset(
    {"yaml.unsafe_load", "yaml.full_load", "pd.read_pickle", "torch.jit.load", "torch.hub.load", "os.popen"}
)
MODEL_READERS = frozenset({"load_model", "model_from_json", "model_from_config", "deserialize_keras_object"})
UNBOUND = frozenset(  # calls that unpack all that there is, or put it wherever it wants to be
    {f"{module}.decompress" for module in ("bz2", "gzip", "lzma", "zlib", "zstandard")} | {"shutil.unpack_archive"}
)
UNBOUND_METHODS = frozenset({"extractall", "extract"})


@dataclass(frozen=True)
class Source:
    """One file: its dotted module name, its text, and whether it is an __init__."""

    module: str
    text: str
    is_package: bool = False

    @property
    def tree(self) -> ast.Module:
        return _parsed(self.text)[0]

    @property
    def nodes(self) -> list[ast.AST]:
        return _parsed(self.text)[1]

    @property
    def parts(self) -> list[str]:
        return self.module.split(".")


@lru_cache(maxsize=1)  # a rule asks for the same file several times; all trees at once would take half a gigabyte
def _parsed(text: str) -> tuple[ast.Module, list[ast.AST]]:
    return (tree := ast.parse(text)), list(ast.walk(tree))


def imports(source: Source) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything imported; `from a import b` gives "a.b", relative names are resolved."""
    for node in source.nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(source, node)
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and dotted(node.func) in {"importlib.import_module", "import_module"}:
            yield from ((node.lineno, str(a.value)) for a in node.args[:1] if isinstance(a, ast.Constant))


def _absolute(source: Source, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    here = source.parts if source.is_package else source.parts[:-1]
    return ".".join([*here[: len(here) - node.level + 1], *filter(None, [node.module])])


def dotted(node: ast.AST) -> str:
    """`a.b.c` for the expression a.b.c, else nothing."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return ""


def import_faults(source: Source) -> list[str]:
    """Imports that the file's place in the layout forbids."""
    rule = {
        "flnet": _flnet_fault,
        "trainers": _trainers_fault,
        "resources": _resources_fault,
        "manual_testing": _manual_fault,
    }[source.parts[0]]
    found = ((line, name, rule(source, name)) for line, name in imports(source))
    return [f"{source.module}:{line}: imports {name}: {fault}" for line, name, fault in found if fault]


def _flnet_fault(source: Source, name: str) -> str:
    top = name.split(".")[0]
    if len(source.parts) == 1:
        return "the root package imports nothing"
    if source.parts[1] not in LAYERS:
        return f"give {source.parts[1]} a layer in tests/layout_rules.py"
    if top == "flnet":
        return _layer_fault(source, name.split("."))
    if top in FRAMEWORKS and not (source.parts[1] == "training" and source.parts[-1].startswith("from_")):
        return "frameworks live in trainers/ only"
    if top in {"flnet_trainers", "trainers", "tests", "manual_testing", "benchmarks"}:
        return "flnet finds trainers by name at run time and knows nothing else outside itself"
    if LAYERS[source.parts[1]] <= PURE_UP_TO and source.parts[1] not in MACHINERY:
        return _purity_fault(top)
    return ""


def _layer_fault(source: Source, target: list[str]) -> str:
    if len(target) == 1 or target[1].startswith("__version"):
        return ""
    mine, theirs = source.parts[1], target[1]
    if theirs not in LAYERS:
        return f"{theirs} has no layer"
    if mine == theirs:
        return _sibling_fault(source, target)
    if LAYERS[theirs] >= LAYERS[mine] and (mine, theirs) not in SEES:
        return f"layer {LAYERS[mine]} imports lower layers only, {theirs} is layer {LAYERS[theirs]}"
    if LAYERS[mine] == ADAPTERS and LAYERS[theirs] > ADAPTERS_SEE_UP_TO:
        return (
            f"layer {ADAPTERS} imports layers 1 to {ADAPTERS_SEE_UP_TO} only, {theirs} is layer {LAYERS[theirs]}"
        )
    return ""


def _sibling_fault(source: Source, target: list[str]) -> str:
    fault = "two versions of one interface never see each other; only base.py and its like are common"
    if frozenset({".".join(source.parts[1:3]), ".".join(target[1:3])}) in APART:
        return fault
    if source.is_package or source.parts[1] not in TWINS or target[2:3] == source.parts[2:3]:
        return ""
    if target[2:3] and target[2] in COMMON:
        return ""
    return fault


def _purity_fault(top: str) -> str:
    if top in IMPURE:
        return f"layers 1 to {PURE_UP_TO} see no clock, chance, thread, disk or network"
    if top not in sys.stdlib_module_names and top not in PURE_FOREIGN:
        return f"layers 1 to {PURE_UP_TO} use the standard library, blake3, numpy and pydantic only"
    return ""


def _trainers_fault(source: Source, name: str) -> str:
    top = name.split(".")[0]
    if top == "flnet":
        return (
            "" if name.startswith("flnet.training.") else "trainers see flnet.training and nothing else of flnet"
        )
    own = top in {"flnet_trainers", "trainers"} or top in sys.stdlib_module_names
    return "" if own or top in TRAINER_FOREIGN else "trainers use the standard library, numpy and their framework"


def _resources_fault(source: Source, name: str) -> str:
    return "resources are files, not code"


def _manual_fault(source: Source, name: str) -> str:
    top = name.split(".")[0]
    allowed = top in sys.stdlib_module_names or top in MANUAL_FOREIGN or top == "manual_testing"
    return "" if allowed else "what a person runs speaks HTTP to a node and knows none of its code"


def unsafe_faults(source: Source) -> list[str]:
    """Ways to run or revive code from data: none is allowed anywhere."""
    faults = [(line, name) for line, name in imports(source) if name.split(".")[0] in UNSAFE_MODULES]
    for node in source.nodes:
        if isinstance(node, ast.Call):
            name = dotted(node.func)
            if name in UNSAFE_CALLS:
                faults.append((node.lineno, f"{name}()"))
            faults += [(node.lineno, "allow_pickle") for keyword in node.keywords if _allows_pickle(keyword)]
    return [f"{source.module}:{line}: {what} can run code from data" for line, what in faults]


def unbound_faults(source: Source) -> list[str]:
    """Calls that read a framework's model files, or unpack without a limit: none in what is shipped."""
    faults = []
    for node in source.nodes:
        if not isinstance(node, ast.Call):
            continue
        name = dotted(node.func) or ""
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name in UNBOUND or method in UNBOUND_METHODS:
            faults.append(f"{source.module}:{node.lineno}: {name or method}() unpacks without a limit")
        if method in MODEL_READERS and name.split(".")[0] in {"keras", "tf", "tensorflow", "onnx"}:
            faults.append(f"{source.module}:{node.lineno}: {name}() makes what a file says")
    return faults


def _allows_pickle(keyword: ast.keyword) -> bool:
    denied = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
    return keyword.arg == "allow_pickle" and not denied


def size_faults(source: Source, functions: bool = True) -> list[str]:
    """Files of 300 lines or more, functions of 50 or more; a function's docstring is not counted."""
    faults = []
    lines = len(source.text.splitlines())
    if lines >= MAX_FILE_LINES:
        faults.append(f"{source.module}: {lines} lines; split it below {MAX_FILE_LINES}")
    for node in source.nodes if functions else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = function_lines(node)
            if length >= MAX_FUNCTION_LINES:
                faults.append(f"{source.module}:{node.lineno}: {node.name} has {length} lines")
    return faults


def function_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function from `def` to its end, without its docstring."""
    first, last = node.body[0], node.end_lineno or node.lineno
    docstring = isinstance(first, ast.Expr) and ast.get_docstring(node, clean=False) is not None
    return last - node.lineno + 1 - ((first.end_lineno or 0) - first.lineno + 1 if docstring else 0)


def has_behaviour(source: Source) -> bool:
    """Whether a module does anything: some function in it has a body that is more than words and dots."""
    functions = (n for n in source.nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    return any(not _is_words(statement) for function in functions for statement in function.body)


def _is_words(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def export_faults(source: Source) -> list[str]:
    """What an __init__ does beyond re-exporting a sorted __all__; an empty one holds a docstring alone."""
    faults, imported, exported = [], [], None
    for statement in source.tree.body:
        if isinstance(statement, ast.ImportFrom):
            imported += [
                alias.asname or alias.name for alias in statement.names if statement.module != "__future__"
            ]
        elif isinstance(statement, ast.Assign) and dotted(statement.targets[0]) == "__all__":
            exported = [str(name) for name in ast.literal_eval(statement.value)]
        elif isinstance(statement, ast.Assign) and dotted(statement.targets[0]) == "__version__":
            imported.append("__version__")
        elif not _is_words(statement):
            faults.append(f"{source.module}:{statement.lineno}: an __init__ only re-exports")
    if ast.get_docstring(source.tree) is None:
        faults.append(f"{source.module}: say in a docstring what the package is for")
    if exported is None:
        return [*faults, *(f"{source.module}: {name} is not in __all__" for name in imported)]
    if exported != sorted(exported, key=_export_order):
        faults.append(f"{source.module}: __all__ is not sorted")
    if set(exported) != set(imported):
        faults.append(
            f"{source.module}: __all__ and the imports differ in {sorted(set(exported) ^ set(imported))}"
        )
    return faults


def _export_order(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, as the linter sorts them."""
    return (0 if name.isupper() else 1 if name[:1].isupper() else 2, name)
