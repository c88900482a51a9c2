"""Says in another language what the node says in English: sentences with gaps, matched whole and filled in anew.

The core knows one language; what it says is recognised here. A sentence of a catalogue is a text with named gaps,
such as "{peer} joined at {address}", compiled once to an anchored regular expression. Names may hold anything, so
no expression may go astray in them: a gap whose kind is not known takes as little as it can and is never tried
again (an atomic group), and only the last of them is searched for from the end. What is in a gap stays text, or is
a sentence itself (`NESTED`), which is said in the other language too, to a bounded depth.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from string import Formatter

MAX_LENGTH = 2000  # characters; what is longer is not looked at
MAX_DEPTH = 5  # of sentences within sentences
MAX_PARTS = 8  # of a sentence that is several, with "; " between
_BETWEEN = "; "
_CLAUSE = (" ", ",", ";")  # how parts of sentences begin

KINDS = {
    "address": r"\S{1,300}:\d{1,5}",
    "number": r"-?\d{1,20}",
    "count": r"-?\d{1,20}",
    "accuracy": r"-?\d{1,3}\.\d{1,10}",
    "later": r"-?\d{1,3}\.\d{1,10}",
    "seconds": r"[\d.e+-]{1,20}",
    "field": r"[\w.\[\]-]{1,200}",
    "state": r"[a-z_ ]{1,20}",
    "code": r"[a-z_]{1,64}",
    "updates": r"\d{1,10} updates?",
    "without": r"(?:, without .*?)?",
    "because": r"(?: \(not taking part: .*?\))?",
    "alone": r"(?: \(this node averaged alone\))?",
    "cause": r"(?: \(.*\))?",
    "busy": r"(?:, because this node is training .*)?",
    "margin": r"(?: by more than [\d.e-]{1,20})?",
    "hint": r"(?:; .*)?",
    "more": r"(?: \(and \d{1,10} more files\))?",
    "why": r"(?: that can be used: .*| below its header)?",
}
"""What a gap of this name holds, as a regular expression; a gap of any other name holds anything."""

NESTED = frozenset(
    {
        *("reason", "error", "outcome", "words", "state", "got", "found", "known", "where", "source"),
        *("updates", "without", "because", "alone", "busy", "margin", "hint", "more", "why"),
    }
)
"""Gaps whose content is a sentence or a part of one. `NAMES` are names, `REASONS` a list "who: why; who: why"."""
NAMES, REASONS = "names", "reasons"
_NAMES_CUT = "{names} and {count} more"


class Sentence:
    """One English sentence with gaps, and what it is in the other language."""

    def __init__(self, text: str, said: str) -> None:
        """Args:
        text: English; {name} is a gap, braces that are none are doubled.
        said: the same in the other language, with the same gaps.
        """
        self.text, self.said = text, said
        parts = _parts_of(text)
        literals = [literal for literal, _ in parts]
        self.words = frozenset(_whole_words(parts))
        self.literal = max(literals, key=len, default="")
        self.weight = sum(map(len, literals))
        self.expression = _expression(parts)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self.expression, re.DOTALL)

    def match(self, text: str) -> Mapping[str, str] | None:
        """What the gaps hold in this text; None where it is another sentence."""
        found = self._pattern.fullmatch(text) if self.literal in text else None
        return found.groupdict() if found else None


def _parts_of(text: str) -> list[tuple[str, str | None]]:
    """What never changes, each with the name of the gap after it; None at the end."""
    parts: list[tuple[str, str | None]] = []
    before = ""
    for literal, name, _, _ in Formatter().parse(text):
        before += literal  # the parser begins anew after a doubled brace
        if name is not None:
            parts.append((before, name))
            before = ""
    return [*parts, (before, None)]


def _whole_words(parts: list[tuple[str, str | None]]) -> Iterator[str]:
    """The words that every such text has, with nothing but spaces beside them."""
    for place, (literal, name) in enumerate(parts):
        words = literal.split(" ")
        first = (
            0 if place == 0 else 1
        )  # it may be grown together with the gap before it, and the last one with the next
        yield from filter(None, words[first : len(words) if name is None else -1])


def _expression(parts: list[tuple[str, str | None]]) -> str:
    free = [place for place, (_, name) in enumerate(parts) if name is not None and name not in KINDS]
    written = ""
    for place, (literal, name) in enumerate(parts):
        before = place - 1
        closing = ")" if before in free[:-1] else ""
        written += re.escape(literal) + closing
        if name is None:
            continue
        if name in KINDS:
            written += f"(?P<{name}>{KINDS[name]})"
        elif place in free[:-1]:
            written += f"(?>(?P<{name}>.*?)"  # closed after the literal that ends it
        else:
            written += f"(?P<{name}>.*)"
    return written


class Catalogue:
    """All sentences of one language, found by the rarest of the words that never change."""

    def __init__(self, by_kind: Mapping[str, Mapping[str, str]], others: Mapping[str, str]) -> None:
        """Args:
        by_kind: sentences of events, by the event's kind.
        others: sentences of errors, reasons and states, and parts of sentences.
        """
        every = {**others, **{text: said for texts in by_kind.values() for text, said in texts.items()}}
        self._by_kind = {kind: _Index(texts) for kind, texts in by_kind.items()}
        self._all = _Index(every)
        self._cut = _Index({_NAMES_CUT: others.get(_NAMES_CUT, _NAMES_CUT)})
        self._say = lru_cache(maxsize=4096)(self._look_up)

    def say(self, text: str, kind: str = "") -> str | None:
        """The text in this language; None where no sentence fits.

        Args:
            text: what the node says, in English.
            kind: of the event, if it is one's text; its sentences are tried first.
        """
        return self._say(text, kind) if 0 < len(text) <= MAX_LENGTH else None

    def _look_up(self, text: str, kind: str) -> str | None:
        own = self._by_kind.get(kind)
        found = self._sentence(text, own, 0) if own else None
        return found or self._nested(text, 0)

    def _nested(self, text: str, depth: int) -> str | None:
        if depth >= MAX_DEPTH:
            return None
        return self._sentence(text, self._all, depth) or self._parts(text, depth)

    def _sentence(self, text: str, index: _Index, depth: int) -> str | None:
        for sentence in index.candidates(text):
            gaps = sentence.match(text)
            if gaps is not None:
                return sentence.said.format(**{name: self._gap(name, held, depth) for name, held in gaps.items()})
        return None

    def _gap(self, name: str, held: str, depth: int) -> str:
        if not held:
            return ""
        if name == REASONS:
            return _BETWEEN.join(self._entry(entry, depth + 1) for entry in held.split(_BETWEEN))
        if name == NAMES:  # they are no words, but for how many were left out
            return self._sentence(held, self._cut, MAX_DEPTH) or held
        return (self._nested(held, depth + 1) or held) if name in NESTED else held

    def _entry(self, entry: str, depth: int) -> str:
        who, between, why = entry.partition(": ")
        return f"{who}{between}{self._nested(why, depth) or why}"

    def _parts(self, text: str, depth: int) -> str | None:
        """A sentence that is several, all of which are known; the longest that fits is taken each time."""
        parts, said = text.split(_BETWEEN), []
        if not 1 < len(parts) <= MAX_PARTS:
            return None
        while parts:
            for end in range(len(parts), 0, -1):
                found = self._sentence(_BETWEEN.join(parts[:end]), self._all, depth + 1)
                if found is not None:
                    break
            else:
                return None
            said.append(found)
            parts = parts[end:]
        return _BETWEEN.join(said)


class _Index:
    """Sentences by their rarest word, so that few are tried; the more of one never changes, the earlier it is."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        sentences = [Sentence(*pair) for pair in texts.items()]
        often = Counter(word for one in sentences for word in one.words)
        self._by_word: dict[str, list[Sentence]] = {}
        for one in sentences:
            rarest = min(one.words, key=lambda word: (often[word], word), default="")
            self._by_word.setdefault(rarest, []).append(one)

    def candidates(self, text: str) -> Sequence[Sentence]:
        """The sentences that this text may be."""
        words = {"", *text.split(" ")}
        found = [one for word in words for one in self._by_word.get(word, ())]
        begin = (
            text[:1] if text[:1] in _CLAUSE else ""
        )  # then rather a part than a sentence that begins with a gap
        return sorted(found, key=lambda one: (not one.text.startswith(begin), -one.weight, one.text))
