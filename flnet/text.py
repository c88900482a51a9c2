"""Sentences for people that can still be translated: English text that remembers its template and its parameters.

The core has to say what happened without knowing who will read it. A `Text` is the finished English sentence, so
it is stored, sent and logged like any other string. It also keeps the template and the parameters from which it
was made; the template is the message id under which the edge of the program looks up a translation (gettext), and
the parameters are put into that. A parameter may be a `Text` itself and is then translated as well.

    text("{peer} joined at {address}", peer.id, address)

A gap of a template is a plain name, without an attribute, a conversion or a format: format the value first, as in
`text("{ratio} x the median", f"{ratio:.2f}")`. Where sentences leave the process, in files and in error answers, `coded`
adds their templates and parameters next to the English words, and `decoded` makes them texts again. It trusts nothing:
a code that does not say exactly the English words is ignored, so a peer cannot show one sentence in English and
another in Spanish.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from string import Formatter
from typing import Annotated, Any, SupportsIndex, TypeAlias

CODES = "texts"  # the field that is added to the English words
MAX_DEPTH = 8  # of texts within texts
MAX_PARAMS = 32  # of one text
MAX_LENGTH = 4000  # characters of a text that is restored
SENTENCE_GAPS = frozenset({"reason", "words", "error"})  # hold a sentence, also where it is a plain string
_GAP = re.compile(r"[a-z][a-z0-9_]{0,31}")

Param: TypeAlias = "str | int | float | Text"


class Text(str):
    """An English sentence with the template and the parameters that it was made of.

    Attributes:
        template: English, with {named} gaps; the message id of a translation.
        params: what stands in the gaps.
    """

    __slots__ = ("params", "template")
    template: str
    params: Mapping[str, Param]

    def __new__(cls, template: str, params: Mapping[str, Param]) -> Text:
        """Put the parameters into the template."""
        made = super().__new__(cls, template.format_map(params))
        made.template, made.params = template, params
        return made

    def __str__(self) -> Text:  # `str(error)` and `str(text)` stay translatable
        return self

    def __getitem__(self, place: SupportsIndex | slice) -> str:
        """Index as in any string; a slice that leaves out nothing, such as `words[:500]`, returns the text itself."""
        part = super().__getitem__(place)
        return self if part == self else part

    def __reduce__(self) -> tuple[type[Text], tuple[str, dict[str, Param]]]:
        return Text, (self.template, dict(self.params))


def text(template: str, /, *values: object) -> Text:
    """A sentence for people.

    Args:
        template: English, with {named} gaps, each of which occurs once; braces that are no gap are doubled.
        values: for the gaps, in their order. Whatever is no number and no string becomes a string.

    Raises:
        ValueError: there are more or fewer values than gaps.
    """
    names = _names(template) if values or "{" in template else ()
    return Text(template, dict(zip(names, map(_param, values), strict=True)))


def one_line(words: str, most: int) -> str:
    """Words as one line of at most `most` characters; a `Text` that is such a line already stays one."""
    line = " ".join(words.split())
    cut = len(line) > most
    line = line[:most]
    if not line.isprintable():
        # Lone surrogates could not be sent at all, and marks that turn the direction of text could disguise it.
        line = "".join(sign if sign.isprintable() else "\ufffd" for sign in line)
    if isinstance(words, Text) and line == words:
        return words
    return line if not cut else line[: most - 1] + "…"


def joined(parts: Iterable[str], between: str = "; ") -> Text:
    """Several texts as one, each of which is translated by itself; `between` has no braces."""
    params = {f"part{number}": part for number, part in enumerate(parts)}
    return Text(between.join(f"{{{name}}}" for name in params), params)


@lru_cache(maxsize=2048)
def _names(template: str) -> tuple[str, ...]:
    return tuple(name for _, name, _, _ in Formatter().parse(template) if name is not None)


def _param(value: object) -> Param:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return value
    return str(value)


def translated(sentence: Text, look_up: Callable[[str], str | None], depth: int = 0) -> str | None:
    """The sentence in another language; None where its template has no translation.

    A template without letters, such as "{who}: {reason}", needs no translation: its parameters do.

    Args:
        sentence: parameters that have no translation stay as they are.
        look_up: gives the translation of a template, with the same gaps.
        depth: how many texts this one is nested in; the deepest stay in English.
    """
    if depth >= MAX_DEPTH:
        return None
    params = {
        name: _translated_param(name, value, look_up, depth + 1) if isinstance(value, str) else value
        for name, value in sentence.params.items()
    }
    template = look_up(sentence.template)
    if template is None and _has_letters(sentence.template):
        return None
    rendered = (template or sentence.template).format_map(params)
    return rendered if template is not None or rendered != sentence else None


def looked_up(words: str, look_up: Callable[[str], str | None]) -> str | None:
    """The translation of a plain string that is a whole sentence without parameters; None for any other."""
    return None if "{" in words or "}" in words else look_up(words)


def _translated_param(name: str, value: str, look_up: Callable[[str], str | None], depth: int) -> str:
    if isinstance(value, Text):
        return translated(value, look_up, depth) or str(value)
    return (looked_up(value, look_up) if name in SENTENCE_GAPS else None) or value


def _has_letters(template: str) -> bool:
    return any(character.isalpha() for literal, *_ in Formatter().parse(template) for character in literal)


def code_of(words: str) -> dict[str, object] | None:
    """Template and parameters of a text, for JSON; None for words that are not a `Text`."""
    if not isinstance(words, Text):
        return None
    params = {name: code_of(value) if isinstance(value, Text) else value for name, value in words.params.items()}
    return {"id": words.template, "params": params}


def restored(words: str, code: object) -> str:
    """The words as a `Text` again; as they are if the code is missing or does not say the same.

    Args:
        words: English.
        code: what `code_of` gave; of a peer or a file, so it may be anything.
    """
    made = _restored(code, 0) if len(words) <= MAX_LENGTH else None
    return made if made is not None and made == words else words


def _restored(code: object, depth: int) -> Text | None:
    """A text that was read, with bounds on how deep and how long it is."""
    if depth >= MAX_DEPTH or not isinstance(code, dict) or not isinstance(code.get("id"), str):
        return None
    template, params = code["id"], code.get("params", {})
    gaps = _gaps(template) if len(template) <= MAX_LENGTH else None
    if gaps is None or not isinstance(params, dict) or len(params) > MAX_PARAMS or sorted(params) != sorted(gaps):
        return None
    checked: dict[str, Param] = {}
    for name, value in params.items():
        inner = _restored(value, depth + 1) if isinstance(value, dict) else value
        if not isinstance(inner, str | int | float) or isinstance(inner, bool):
            return None
        if isinstance(inner, int) and abs(inner) >= 2**64:
            return None
        checked[name] = inner
    lengths = sum(len(str(value)) for value in checked.values())
    return Text(template, checked) if len(template) + lengths <= 2 * MAX_LENGTH else None


def _gaps(template: str) -> list[str] | None:
    """Names of the gaps; None if this is no template that `text` is used with."""
    try:
        parsed = list(Formatter().parse(template))
    except ValueError:
        return None
    fields = [(name, spec, conversion) for _, name, spec, conversion in parsed if name is not None]
    names = [name for name, *_ in fields]
    plain = all(_GAP.fullmatch(name) and not spec and not conversion for name, spec, conversion in fields)
    return names if plain and len(set(names)) == len(names) else None


def codes_of(data: object) -> dict[str, object] | None:
    """The codes of all texts in JSON-ready data, under the keys and places that lead to them; None for no text."""
    if isinstance(data, str):
        return code_of(data)
    if isinstance(data, Mapping):
        entries: Iterable[tuple[object, object]] = data.items()
    elif isinstance(data, list | tuple):
        entries = enumerate(data)
    else:
        return None
    codes: dict[str, object] = {str(key): code for key, value in entries if (code := codes_of(value)) is not None}
    return codes or None


def with_codes(data: Any, codes: object) -> Any:
    """JSON data in which strings are texts again, as far as `codes_of` gave a code for them."""
    if isinstance(data, str):
        return restored(data, codes)
    if not isinstance(codes, dict):
        return data
    if isinstance(data, dict):
        return {key: with_codes(value, codes.get(key)) for key, value in data.items()}
    if isinstance(data, list):
        return [with_codes(value, codes.get(str(place))) for place, value in enumerate(data)]
    return data


def coded(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """JSON-ready fields, with the codes of the texts in them under CODES; a reader that knows no codes ignores it."""
    codes = codes_of(fields)
    return fields if codes is None else {**fields, CODES: codes}


def decoded(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that `coded` was given, with their texts."""
    plain: dict[str, Any] = with_codes(
        {name: value for name, value in fields.items() if name != CODES}, fields.get(CODES)
    )
    return plain


class _Kept:
    """Tells pydantic to validate a string as always, and to keep it if it is a `Text`."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        from pydantic_core import core_schema  # noqa: PLC0415 - trainers raise errors with texts and need no pydantic

        def keep(value: Any, check: Callable[[Any], str]) -> str:
            checked = check(value)
            return value if isinstance(value, Text) and value == checked else checked

        return core_schema.no_info_wrap_validator_function(keep, handler(source))


Words = Annotated[str, _Kept()]
"""A string field of a pydantic model in which a `Text` stays one; plain `str` would forget the template."""


MOST_MARKS = 30  # in a row, of Unicode's stream-safe text (UAX 15); languages and mathematics need fewer
_SHORT = 1000  # characters, whatever they are, that take no time


def composed(words: str) -> str:
    """The same text in Unicode NFC, in which names and words of data are compared.

    Raises:
        ValueError: it has a long run of combining marks. The time to sort one grows with its square, and nothing else in
            the process runs meanwhile.
    """
    if not words.isascii() and len(words) > _SHORT and _marks_in_a_row().search(words):
        raise ValueError(text("more than {most} accents on one sign; no text has so many", MOST_MARKS))
    return unicodedata.normalize("NFC", words)


@cache
def _marks_in_a_row() -> re.Pattern[str]:
    """Finds more than MOST_MARKS signs of which none begins anew when text is taken apart."""
    signs = map(chr, range(0x300, sys.maxunicode + 1))
    marks = (sign for sign in signs if unicodedata.combining(unicodedata.normalize("NFD", sign)[0]))
    return re.compile(f"[{''.join(marks)}]{{{MOST_MARKS + 1}}}")
