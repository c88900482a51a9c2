"""Finds the place of a recorded mutant in the code of today, also when the code has moved or is wrapped otherwise.

The place is looked for in this order: the function of that qualified name in the recorded file, then anywhere in
`flnet/`; a function of the same last name; and at last the lines themselves, if they stood once in all of `flnet/`
when the mutant was drawn and still do. Lines are compared by their tokens, so that other line breaks, comments and
indentation make no difference.
"""

from __future__ import annotations

import ast
import difflib
import io
import tokenize
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

PACKAGE = "flnet"
SKIPPED = frozenset(
    {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT, tokenize.ENDMARKER}
)
CLOSING = frozenset(")]}")


class NotFound(Exception):
    """The code of a mutant does not exist any more, or in several places."""


@dataclass(frozen=True)
class Token:
    """A token and where it stands: offsets into the text, and its line."""

    text: str
    start: int
    end: int
    line: int


@dataclass(frozen=True)
class Scope:
    """The lines of a function or class; of the whole file under the empty name."""

    name: str
    first: int
    last: int


def tokens_of(text: str) -> list[Token]:
    """The tokens that mean something; text that ends in the middle of an expression is allowed.

    A comma before a closing bracket is left out: it comes and goes with line breaks.
    """
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    tokens: list[Token] = []
    with suppress(tokenize.TokenError, IndentationError):
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in SKIPPED or not token.string:
                continue
            if token.string in CLOSING and tokens and tokens[-1].text == ",":
                tokens.pop()
            start, end = (starts[row - 1] + column for row, column in (token.start, token.end))
            tokens.append(Token(token.string, start, end, token.start[0]))
    return tokens


@dataclass
class Module:
    """One file of the package."""

    path: str
    text: str

    @cached_property
    def tokens(self) -> list[Token]:
        """Of the whole file."""
        return tokens_of(self.text)

    @cached_property
    def scopes(self) -> list[Scope]:
        """The file itself, and every function and class in it."""
        scopes = [Scope("", 1, self.text.count("\n") + 1)]

        def visit(node: ast.AST, names: tuple[str, ...]) -> None:
            for child in ast.iter_child_nodes(node):
                inner = names
                if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    inner = (*names, child.name)
                    scopes.append(Scope(".".join(inner), child.lineno, child.end_lineno or child.lineno))
                visit(child, inner)

        visit(ast.parse(self.text), ())
        return scopes

    def spans(self, lines: str, scope: Scope) -> list[tuple[int, int]]:
        """Where these lines stand in a scope: offsets of the first and behind the last character."""
        wanted = [token.text for token in tokens_of(lines)]
        if wanted and wanted[-1] == ",":  # it may stand before a bracket now
            wanted.pop()
        if not wanted or max(wanted, key=len) not in self.text:
            return []
        tokens = [token for token in self.tokens if scope.first <= token.line <= scope.last]
        texts = [token.text for token in tokens]
        places = [at for at, text in enumerate(texts) if text == wanted[0]]
        hits = [at for at in places if texts[at : at + len(wanted)] == wanted]
        return [(tokens[at].start, tokens[at + len(wanted) - 1].end) for at in hits]


@dataclass(frozen=True)
class Place:
    """Where a mutant goes: `before` stands at `span` of the file."""

    module: Module
    span: tuple[int, int]
    before: str
    how: str

    def planted(self, after: str) -> str:
        """The text of the file with the fault in it.

        Raises:
            NotFound: the result is no Python, or no change.
        """
        start, end = self.span
        text = self.module.text
        lines = [_without_comment(line) for line in after.splitlines()]
        if _without_comment(self.before.splitlines()[-1]).endswith(","):
            lines[-1] = lines[-1].rstrip(",")
        before = text[text.rfind("\n", 0, start) + 1 : start]
        changed = text[:start] + f"\n{before if before.isspace() else ''} ".join(lines) + text[end:]
        try:
            if ast.dump(ast.parse(changed)) == ast.dump(ast.parse(text)):
                raise NotFound("the change changes nothing there")
        except SyntaxError as exc:
            raise NotFound(f"the changed line is no Python there: {exc}") from exc
        return changed


def _without_comment(line: str) -> str:
    with suppress(tokenize.TokenError, IndentationError):
        for token in tokenize.generate_tokens(io.StringIO(line).readline):
            if token.type == tokenize.COMMENT:
                return line[: token.start[1]].rstrip()
    return line


Wanted = Callable[[Module, Scope], bool]


class Tree:
    """The package of one working tree."""

    def __init__(self, root: Path) -> None:
        self.root = root
        paths = sorted((root / PACKAGE).rglob("*.py"))
        self.modules = [Module(path.relative_to(root).as_posix(), path.read_text("utf-8")) for path in paths]

    def find(self, path: str, function: str, before: str, occurrence: int, unique: bool) -> Place:
        """The place of a mutant.

        Args:
            occurrence: counts the same lines within the function, from 0.
            unique: the lines stood once in the whole package when the mutant was drawn.

        Raises:
            NotFound: there is none, or there are several.
        """
        last = function.rpartition(".")[2]
        ways: dict[str, Wanted] = {
            "same file and name": lambda m, s: m.path == path and s.name == function,
            "same name": lambda _, s: bool(function) and s.name == function,
            "same last name": lambda _, s: bool(last) and s.name.rpartition(".")[2] == last,
            "same lines": lambda _, s: unique and s.name == "",
        }
        for how, wanted in ways.items():
            places = self.spans(before, wanted)
            namesakes = [hit for hit in places if hit[0].path.rpartition("/")[2] == path.rpartition("/")[2]]
            places = namesakes if len(namesakes) == 1 else places
            if len(places) > 1:
                raise NotFound(f"{how}: in {', '.join(module.path for module, _ in places)}")
            for module, spans in places:
                if occurrence >= len(spans) > 1:
                    raise NotFound(f"{how}: {module.path} has these lines only {len(spans)} times")
                return Place(module, spans[min(occurrence, len(spans) - 1)], before, how)
        raise NotFound("the lines do not exist any more")

    def spans(self, lines: str, wanted: Wanted) -> list[tuple[Module, list[tuple[int, int]]]]:
        """The files that have these lines in such a scope, and where."""
        hits = []
        for module in self.modules:
            scopes = (scope for scope in module.scopes if wanted(module, scope))
            if spans := sorted({span for scope in scopes for span in module.spans(lines, scope)}):
                hits.append((module, spans))
        return hits

    def alike(self, lines: str, most: int = 3) -> Iterator[str]:
        """The lines of today that look most like these, for a person who maps a mutant by hand."""
        line = max(lines.splitlines(), key=len)
        where: dict[str, str] = {}
        for module in self.modules:
            for number, text in enumerate(module.text.splitlines(), 1):
                if len(line) / 2 <= len(text.strip()) <= 2 * len(line):
                    where.setdefault(text.strip(), f"{module.path}:{number}")
        for text in difflib.get_close_matches(line, where, most, 0.5):
            yield f"{where[text]}: {text}"
