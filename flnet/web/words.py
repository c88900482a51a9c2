"""The languages of the pages: every text of the templates in English, and what it is in the others."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

from flnet.web.words_access import SPANISH as OF_ACCESS
from flnet.web.words_goals import SPANISH as OF_GOALS
from flnet.web.words_import import SPANISH as OF_IMPORTS
from flnet.web.words_keys import SPANISH as OF_KEYS
from flnet.web.words_page import SPANISH as OF_THE_PAGE
from flnet.web.words_views import SPANISH as OF_THE_VIEWS

ENGLISH = "en"
LANGUAGES = {ENGLISH: "English", "es": "Español"}
SPANISH: Mapping[str, str] = {**OF_ACCESS, **OF_THE_VIEWS, **OF_IMPORTS, **OF_GOALS, **OF_KEYS, **OF_THE_PAGE}
_TEXTS: Mapping[str, Mapping[str, str]] = {"es": SPANISH}


class Translate(Protocol):
    """Says an English text in one language."""

    def __call__(self, text: str, /, **values: Any) -> str:
        """The text, with `values` put into its {places}."""
        ...


def translate(language: str, text: str, /, **values: Any) -> str:
    """An English text in a language; as it is where it has no translation.

    Args:
        language: one of LANGUAGES.
        text: what the templates hold, with {names} where values go.
        values: put in as they are; the template escapes the whole.
    """
    found = _TEXTS.get(language, {}).get(text, text)
    return found.format(**values) if values else found


def translator(language: str) -> Translate:
    """`translate` for one language."""
    return partial(translate, language)


english: Translate = translator(ENGLISH)
