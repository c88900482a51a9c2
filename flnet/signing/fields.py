"""Header fields of signatures: dictionaries of RFC 9651, as far as RFC 9421 and RFC 9530 need them, read strictly.

Only what is written in the one canonical way is read, so that what was signed and what is looked at are the same.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from flnet.signing.refusals import SignatureRefused

MOST_CHARACTERS = 4096  # of one field
_KEY = re.compile(r"[a-z*][a-z0-9_.*-]*")
_STRING = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"')
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,14}")
_BYTES = re.compile(r":([A-Za-z0-9+/]*={0,2}):")
_TRUE = "?1"

Value = str | int | bytes | bool


@dataclass(frozen=True)
class Component:
    """A part of a message that a signature covers: its name, and parameters that say which part."""

    name: str
    params: tuple[tuple[str, Value], ...] = ()

    def __str__(self) -> str:
        return quoted(self.name) + written(self.params)


@dataclass(frozen=True)
class Covered:
    """One member of Signature-Input: what is covered, in order, and the parameters of the signature."""

    components: tuple[Component, ...]
    params: tuple[tuple[str, Value], ...]

    @cached_property
    def text(self) -> str:
        """As it stands in the field."""
        return f"({' '.join(map(str, self.components))}){written(self.params)}"

    def __str__(self) -> str:
        return self.text

    def param(self, name: str) -> Value | None:
        """A parameter; None if there is none of this name."""
        return next((value for key, value in self.params if key == name), None)


def quoted(text: str) -> str:
    """A string as it stands in a field; only printable ASCII can."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def encoded(raw: bytes) -> str:
    """Bytes as they stand in a field."""
    return f":{base64.b64encode(raw).decode('ascii')}:"


def written(params: tuple[tuple[str, Value], ...]) -> str:
    """Parameters as they stand behind what they belong to."""
    return "".join(f";{name}" if value is True else f";{name}={_value(value)}" for name, value in params)


def read_inputs(text: str) -> Mapping[str, Covered]:
    """The members of Signature-Input.

    Raises:
        SignatureRefused: it is not in the form of RFC 9421, or not in the canonical one.
    """
    reader, found = _Reader(text, "Signature-Input"), {}
    for name in reader.members():
        found[name] = reader.covered()
    return found


def read_bytes(text: str, field: str) -> Mapping[str, bytes]:
    """The members of Signature or Content-Digest.

    Raises:
        SignatureRefused: it is no dictionary of byte sequences.
    """
    reader, found = _Reader(text, field), {}
    for name in reader.members():
        found[name] = reader.bytes()
    return found


class _Reader:
    def __init__(self, text: str, field: str) -> None:
        self._text, self._field, self._at = text, field, 0
        self._first: tuple[str, Covered] | None = None  # member of Signature-Input, and how it is written
        if len(text) > MOST_CHARACTERS:
            raise self._wrong(f"has more than {MOST_CHARACTERS} characters")

    def members(self) -> Iterator[str]:
        """Yields the name of each member; what stands behind it is read before the next one is asked for."""
        seen: set[str] = set()
        while True:
            name = self._take(_KEY)[0]
            if name in seen:
                raise self._wrong("names a member twice")
            seen.add(name)
            self._skip("=")
            yield name
            if self._at == len(self._text):
                return
            self._skip(", ")

    def covered(self) -> Covered:
        """The next one; a second one that is written like the first, as ours is, is not read letter by letter."""
        if self._first is not None and self._skipped(self._first[0]):
            if self._at == len(self._text) or self._text.startswith(", ", self._at):
                return self._first[1]
            self._at -= len(self._first[0])
        begin = self._at
        found = Covered(self.components(), self.params())
        self._first = self._first or (self._text[begin : self._at], found)
        return found

    def components(self) -> tuple[Component, ...]:
        self._skip("(")
        found: list[Component] = []
        while not self._skipped(")"):
            if found:
                self._skip(" ")
            found.append(Component(self._string(), self.params()))
        if len(set(found)) < len(found):
            raise self._wrong("covers a component twice")
        return tuple(found)

    def params(self) -> tuple[tuple[str, Value], ...]:
        found: list[tuple[str, Value]] = []
        while self._skipped(";"):
            name = self._take(_KEY)[0]
            if any(name == other for other, _ in found):
                raise self._wrong("names a parameter twice")
            found.append((name, self._bare() if self._skipped("=") else True))
        return tuple(found)

    def bytes(self) -> bytes:
        text = self._take(_BYTES)[1]
        try:
            raw = base64.b64decode(text, validate=True)
        except binascii.Error:
            raise self._wrong("holds base64 that cannot be read") from None
        if base64.b64encode(raw).decode("ascii") != text:
            raise self._wrong("holds base64 in another form than the usual one")
        return raw

    def _bare(self) -> Value:
        if self._text.startswith('"', self._at):
            return self._string()
        if self._text.startswith(":", self._at):
            return self.bytes()
        return int(self._take(_INTEGER)[0])

    def _string(self) -> str:
        return re.sub(r"\\(.)", r"\1", self._take(_STRING)[1])

    def _take(self, what: re.Pattern[str]) -> re.Match[str]:
        found = what.match(self._text, self._at)
        if found is None:
            raise self._wrong(f"cannot be read from character {self._at} on")
        self._at = found.end()
        return found

    def _skipped(self, text: str) -> bool:
        if self._text.startswith(text, self._at):
            self._at += len(text)
            return True
        return False

    def _skip(self, text: str) -> None:
        if not self._skipped(text):
            raise self._wrong(f"has no {text!r} at character {self._at}")

    def _wrong(self, words: str) -> SignatureRefused:
        return SignatureRefused(f"the header {self._field} {words}")


def _value(value: Value) -> str:
    if isinstance(value, bytes):
        return encoded(value)
    if isinstance(value, bool):
        return _TRUE if value else "?0"
    return quoted(value) if isinstance(value, str) else str(value)
