"""What the node says, for the reader of a page: in the page's language where it is known, or marked as English."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from markupsafe import Markup, escape

from flnet.web.sentences import MAX_LENGTH, Catalogue
from flnet.web.view import text
from flnet.web.words import ENGLISH, SPANISH
from flnet.web.words_access import REFUSALS as ACCESS
from flnet.web.words_data import SPANISH as DATA
from flnet.web.words_events import SPANISH as EVENTS
from flnet.web.words_keys import REFUSALS as KEYS
from flnet.web.words_reasons import SPANISH as REASONS
from flnet.web.words_refusals import SPANISH as REFUSALS
from flnet.web.words_series import SPANISH as SERIES
from flnet.web.words_signing import SPANISH as SIGNING
from flnet.web.words_sources import SPANISH as SOURCES
from flnet.web.words_trainers import SPANISH as TRAINERS
from flnet.web.words_training import SPANISH as TRAINING
from flnet.web.words_trust import EVENTS as OF_TRUST
from flnet.web.words_trust import SPANISH as TRUST

MOST_SHOWN = 600  # characters of one text
_OTHERS = (TRAINERS, SOURCES, DATA, TRAINING, SERIES, REFUSALS, ACCESS, KEYS, SIGNING, TRUST, REASONS, SPANISH)
_TABLES = {"es": ({**EVENTS, **OF_TRUST}, _OTHERS)}


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
    if language not in _TABLES:
        return None
    events, others = _TABLES[language]
    return Catalogue(events, _merged(others))


def texts_of(language: str) -> dict[str, str]:
    """All sentences of a language's catalogue, the English ones with their translations."""
    events, others = _TABLES[language]
    told = {english: said for texts in events.values() for english, said in texts.items()}
    return told | _merged(others)


def _merged(tables: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Of the page's own texts only whole ones: with gaps, some are so short that anything would fit."""
    pairs = [pair for table in tables for pair in table.items() if table is not SPANISH or "{" not in pair[0]]
    return dict(pairs)
