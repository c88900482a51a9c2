"""Translates what the pages show with gettext: their own texts, and the sentences of the node.

The English text is the message id, with {named} gaps. `locale/es/LC_MESSAGES/flnet.po` holds the Spanish texts;
`make translations` compiles it to the .mo file that is read here. Templates ask for a text of the page with `_`, code
with `t` (a `Translate`). A sentence of the node is a `flnet.text.Text`, which keeps its message id and its parameters.

A sentence that is a plain string came from another node, from a trainer, or from a state folder of an earlier version.
If it has no parameters, it is its own message id. All others are shown as they are, and marked as English.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from gettext import GNUTranslations, NullTranslations
from importlib.resources import files
from typing import Any, Protocol

from markupsafe import Markup, escape
from quart import request

from flnet.text import Text, looked_up, translated
from flnet.web.formatting import one_line

ENGLISH = "en"
LANGUAGES = {ENGLISH: "English", "es": "Español"}
LANGUAGE_COOKIE = "flnet_language"
MAX_SHOWN = 600  # characters of one sentence


class Translate(Protocol):
    """Translates an English text into one language."""

    def __call__(self, text: str, /, **values: Any) -> str:
        """The text, with `values` in its gaps."""
        ...


class _Missing(NullTranslations):
    """The end of gettext's search: "" tells a text without translation from one that is the same in English."""

    def gettext(self, message: str) -> str:
        """Nothing."""
        return ""


@lru_cache
def _catalogue(language: str) -> NullTranslations:
    """All translations of a language, read when it is asked for first."""
    if language == ENGLISH or language not in LANGUAGES:
        return _Missing()
    path = files("flnet.web").joinpath("locale", language, "LC_MESSAGES", "flnet.mo")
    with path.open("rb") as file:
        translations = GNUTranslations(file)
    translations.add_fallback(_Missing())
    return translations


def look_up(language: str, template: str) -> str | None:
    """The translation of an English text; None where it has none.

    Args:
        language: one of LANGUAGES.
        template: with {named} gaps; so has the translation.
    """
    return _catalogue(language).gettext(template) or None if template else None


def translate(language: str, text: str, /, **values: Any) -> str:
    """A text of the page in a language; in English where it has no translation.

    Args:
        language: one of LANGUAGES.
        text: English, with {named} gaps.
        values: for the gaps. They are not translated, and the template escapes the whole.
    """
    template = look_up(language, text) or text
    return template.format(**values) if values else template


def translate_markup(language: str, text: str, /, **values: Any) -> Markup:
    """`translate` for a template: text and values are escaped, except values that are markup themselves."""
    template = escape(look_up(language, text) or text)
    return template.format(**values) if values else template


def translator(language: str) -> Translate:
    """`translate` for one language."""
    return partial(translate, language)


@dataclass(frozen=True)
class Sentence:
    """A sentence as a reader sees it; `language` is "en" where that is not the language of the page, else empty."""

    text: str
    language: str = ""


def translate_sentence(language: str, words: object, max_length: int = MAX_SHOWN) -> Sentence:
    """A sentence of the node in a language, on one line; in English where it has no translation.

    Args:
        language: one of LANGUAGES.
        words: English; what another node sent may be anything, see `flnet.web.formatting.one_line`.
        max_length: in characters; what is longer is cut.
    """
    if language != ENGLISH and isinstance(words, str):
        find = partial(look_up, language)
        known = translated(words, find) if isinstance(words, Text) else looked_up(words, find)
        if known is not None:
            return Sentence(one_line(known, max_length))
    plain = one_line(words, max_length)
    return Sentence(plain, ENGLISH if plain and language != ENGLISH else "")


def sentence_markup(language: str, words: object, max_length: int = MAX_SHOWN) -> Markup:
    """`translate_sentence` for a template: escaped, and marked where it is not in the language of the page."""
    shown = translate_sentence(language, words, max_length)
    if not shown.language:
        return escape(shown.text)
    return Markup('<span lang="{}">{}</span>').format(shown.language, shown.text)


def request_language() -> str:
    """The language that the caller chose before, or else the one that its browser prefers."""
    chosen = request.cookies.get(LANGUAGE_COOKIE)
    if chosen in LANGUAGES:
        return chosen
    preferred = (name.split("-")[0].lower() for name in request.accept_languages.values())  # the best first
    return next((name for name in preferred if name in LANGUAGES), ENGLISH)


def request_translator() -> Translate:
    """Translates texts of the page into the caller's language."""
    return translator(request_language())
