"""What the node says, for the reader of a page: in the page's language where it is known, or marked as English."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from markupsafe import Markup, escape

from flnet.web.sentences import MAX_LENGTH, Catalogue
from flnet.web.view import text
from flnet.web.words import CATALOGUES, ENGLISH

MOST_SHOWN = 600  # characters of one text


@dataclass(frozen=True)
class Said:
    """A text to show; `lang` is "en" where that is not the language of the page, else empty."""

    text: str
    lang: str = ""

    def __bool__(self) -> bool:
        return bool(self.text)


def say(language: str, words: object, kind: str = "", most: int = MOST_SHOWN) -> Said:
    """What the node said, in the reader's language.

    Args:
        language: one of `flnet.web.words.LANGUAGES`.
        words: in English; of a peer it may be anything, see `flnet.web.view.text`.
        kind: of the event, if it is the text of one.
        most: characters that are shown.
    """
    whole = text(words, MAX_LENGTH)
    catalogue = catalogue_of(language)
    found = catalogue.say(whole, kind) if catalogue else None
    if found is not None:
        return Said(text(found, most))
    return Said(text(whole, most), "" if language == ENGLISH or not whole else ENGLISH)


def shown(language: str, words: object, kind: str = "") -> Markup:
    """What the node said, for a template: escaped, and marked where it is not in the language of the page."""
    said = say(language, words, kind)
    return Markup('<span lang="{}">{}</span>').format(said.lang, said.text) if said.lang else escape(said.text)


@lru_cache
def catalogue_of(language: str) -> Catalogue | None:
    """All that is known in a language of what the node says; None for English, and for one that is not known."""
    if language not in CATALOGUES:
        return None
    return Catalogue(CATALOGUES[language].EVENTS, _others(language))


def texts_of(language: str) -> dict[str, str]:
    """All sentences of a language's catalogue, the English ones with their translations."""
    told = {english: said for texts in CATALOGUES[language].EVENTS.values() for english, said in texts.items()}
    return told | _others(language)


def _others(language: str) -> dict[str, str]:
    """What belongs to no kind of event; of the page's texts only whole ones: with gaps, anything may fit."""
    known = CATALOGUES[language]
    pairs = [pair for table in known.SENTENCES for pair in table.items()]
    return dict(pairs) | {english: said for english, said in known.PAGES.items() if "{" not in english}
