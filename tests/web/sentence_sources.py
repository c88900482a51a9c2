"""Finds strings in the sources of flnet that people may read and that are no `flnet.text.Text`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

GAP = "{}"
PUBLISHING = {"Publish": 1, "publish": 1, "tell": 1, "decline": 1, "Notice": 0, "show_fault": 1}
"""Calls whose argument at this place is a sentence for people, however short."""
TRANSLATED = {"text", "t", "_"}
"""Calls whose first argument is a message id."""
UNSEEN = {
    *("IllegalStep", "TypeError", "AssertionError", "NotImplementedError", "RuntimeError"),
    *("StartError", "SettingsError", "compile", "getLogger", "_declare"),
}
"""Calls whose words nobody reads on the page: of bugs, of nodes that do not start, of patterns, of the API description."""
UNSEEN_KEYWORDS = {"description", "help", "content_type", "what", "query"}
_SQL = re.compile(r"\s*(CREATE|DELETE|INSERT|SELECT|UPDATE) [A-Za-z]")
_WORD = re.compile(r"(?<![\w/.=-])[a-z]{2,}(?![\w/=-])")


@dataclass(frozen=True)
class Found:
    """A string that reads like a sentence, with {} for gaps, and where it stands."""

    where: str
    words: str


def sentences_in(path: Path, name: str) -> list[Found]:
    """The strings of a module that read like two words or more, and all that is told, but for the unseen."""
    tree = ast.parse(path.read_text("utf-8"))
    skipped = {id(node) for node in _unseen(tree)}
    told = {id(argument) for argument in _told(tree)}
    return [
        Found(f"{name}:{node.lineno}", words)
        for node in ast.walk(tree)
        if id(node) not in skipped and isinstance(node, ast.Constant | ast.JoinedStr)
        if (words := words_of(node)) and (reads_like_words(words) or id(node) in told)
    ]


def words_of(node: ast.Constant | ast.JoinedStr) -> str:
    """A string literal with {} for each gap; nothing for any other constant."""
    if isinstance(node, ast.JoinedStr):
        return "".join(words_of(part) if isinstance(part, ast.Constant) else GAP for part in node.values)
    return node.value if isinstance(node.value, str) else ""


def reads_like_words(words: str) -> bool:
    """Whether this is a sentence or a part of one, not a name, an address, a pattern or markup."""
    return (
        not words.startswith("<")
        and not _SQL.match(words)
        and " " in words.strip()
        and len(_WORD.findall(words)) >= 2
    )


def _told(tree: ast.AST) -> Iterator[ast.AST]:
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and (place := PUBLISHING.get(_name(call))) is not None:
            yield from call.args[place : place + 1]


def _unseen(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant() as docstring):
                yield docstring
            case ast.JoinedStr():  # its parts are read together
                yield from (part for part in node.values if isinstance(part, ast.Constant))
            case ast.Call() if _name(node) in UNSEEN or _is_log(node):
                yield from (part for argument in node.args for part in ast.walk(argument))
            case ast.Call() if _name(node) in TRANSLATED:
                yield from node.args[:1]
            case ast.keyword() if node.arg in UNSEEN_KEYWORDS:
                yield from ast.walk(node.value)
            case ast.Assert(msg=ast.expr() as message):
                yield from ast.walk(message)


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _is_log(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", "").lower() in ("_log", "log")
