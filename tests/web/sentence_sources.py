"""Finds the sentences in the sources of flnet that people may read, as templates in which every gap is `GAP`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

GAP = "\0"
MOST_VARIANTS = 16  # of one sentence
TELLING = {"Publish": 1, "publish": 1, "tell": 1, "decline": 1, "Notice": 0, "show_fault": 1}
"""Calls whose argument at this place is always words for people, however short."""
UNSEEN = {
    "IllegalStep",
    "TypeError",
    "AssertionError",
    "NotImplementedError",
    "RuntimeError",
    "compile",
    "getLogger",
}
"""Calls whose words nobody reads on the page: of bugs, of what cannot happen, of patterns."""
_SQL = re.compile(r"\s*(CREATE|DELETE|INSERT|SELECT|UPDATE) [A-Za-z]")
_WORD = re.compile(r"(?<![\w/.=-])[a-z]{2,}(?![\w/=-])")


@dataclass(frozen=True)
class Found:
    """A sentence, and where it stands."""

    where: str
    template: str


def sentences_in(path: Path, name: str) -> list[Found]:
    """What the module says: whatever reads like two words or more, and all that is told, but for the unseen."""
    tree = ast.parse(path.read_text("utf-8"))
    skipped = set(_unseen(tree))
    told = {id(argument) for argument in _told(tree)}
    found = []
    for node in ast.walk(tree):
        if id(node) in skipped or not isinstance(node, ast.Constant | ast.JoinedStr):
            continue
        if isinstance(node, ast.Constant) and not isinstance(node.value, str):
            continue
        for template in variants(node):
            if reads_like_words(template) or (id(node) in told and re.search("[a-z]{2}", template)):
                found.append(Found(f"{name}:{node.lineno}", template))
    return found


def variants(node: ast.AST) -> list[str]:
    """All that an expression can say, with `GAP` for what is not known here."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.FormattedValue) and node.conversion < 0:
        return variants(node.value)
    if isinstance(node, ast.IfExp):
        return sorted({*variants(node.body), *variants(node.orelse)})
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and isinstance(node.left, ast.Constant):
        return ["", *variants(node.left)]
    if isinstance(node, ast.JoinedStr):
        parts = [variants(part) for part in node.values]
        return ["".join(one) for one in product(*parts)][:MOST_VARIANTS]
    return [GAP]


def reads_like_words(template: str) -> bool:
    """Whether this is a sentence or a part of one, not a name, an address or a pattern."""
    if _SQL.match(template):
        return False
    return " " in template.strip() and len(_WORD.findall(template)) >= 2


def _told(tree: ast.AST) -> Iterator[ast.AST]:
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and (place := TELLING.get(_name(call))) is not None:
            yield from call.args[place : place + 1]


def _unseen(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        parts: list[ast.AST] = []
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):  # a docstring
            parts = [node.value]
        elif isinstance(node, ast.JoinedStr):  # its pieces are read together
            parts = [one for one in node.values if isinstance(one, ast.Constant)]
            parts += [one for value in node.values for one in _chosen(value)]
        elif isinstance(node, ast.Call) and (_name(node) in UNSEEN or _is_log(node) or _name(node) == "t"):
            parts = [one for argument in node.args for one in ast.walk(argument)]
        elif isinstance(node, ast.keyword) and node.arg in ("description", "help", "content_type"):
            parts = list(ast.walk(node.value))
        elif isinstance(node, ast.Assert) and node.msg is not None:
            parts = list(ast.walk(node.msg))
        yield from map(id, parts)


def _chosen(value: ast.AST) -> list[ast.AST]:
    """The texts that stand in a sentence by turns."""
    inner = value.value if isinstance(value, ast.FormattedValue) and value.conversion < 0 else value
    if isinstance(inner, ast.IfExp):
        return [*_chosen(inner.body), *_chosen(inner.orelse)]
    return [inner] if isinstance(inner, ast.Constant | ast.JoinedStr) else []


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _is_log(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", "").lower() in ("_log", "log")
