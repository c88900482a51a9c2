"""All that is known in Spanish: the texts of the pages, and what the node says. The first reader loads it."""

from __future__ import annotations

from collections.abc import Mapping

from flnet.web import (
    words_access,
    words_automatic,
    words_findings,
    words_keys,
    words_trust,
    words_versions,
    words_weights,
)
from flnet.web.words_data import SPANISH as OF_DATA
from flnet.web.words_events import SPANISH as OF_EVENTS
from flnet.web.words_goals import SPANISH as OF_GOALS
from flnet.web.words_import import SPANISH as OF_IMPORTS
from flnet.web.words_labels import SPANISH as OF_LABELS
from flnet.web.words_page import SPANISH as OF_THE_PAGE
from flnet.web.words_personal import PAGES as OF_TWO_MODELS
from flnet.web.words_personal import SPANISH as OF_PERSONAL
from flnet.web.words_reasons import SPANISH as OF_REASONS
from flnet.web.words_refusals import SPANISH as OF_REFUSALS
from flnet.web.words_series import SPANISH as OF_SERIES
from flnet.web.words_signing import SPANISH as OF_SIGNING
from flnet.web.words_sources import SPANISH as OF_SOURCES
from flnet.web.words_trainers import SPANISH as OF_TRAINERS
from flnet.web.words_training import SPANISH as OF_TRAINING
from flnet.web.words_views import SPANISH as OF_THE_VIEWS

__all__ = ["EVENTS", "PAGES", "SENTENCES"]
PAGES: Mapping[str, str] = {
    **words_access.SPANISH,
    **OF_THE_VIEWS,
    **words_findings.PAGES,
    **OF_IMPORTS,
    **OF_GOALS,
    **words_automatic.PAGES,
    **words_keys.SPANISH,
    **OF_THE_PAGE,
    **words_versions.PAGES,
    **OF_TWO_MODELS,
    **words_weights.PAGES,
}
EVENTS: Mapping[str, Mapping[str, str]] = {  # by kind
    **OF_EVENTS,
    **words_trust.EVENTS,
    **words_automatic.EVENTS,
    **words_versions.EVENTS,
    **words_weights.EVENTS,
}
SENTENCES = (
    *(OF_TRAINERS, OF_SOURCES, OF_DATA, OF_TRAINING, OF_SERIES, OF_REFUSALS),
    *(words_access.REFUSALS, words_keys.REFUSALS, OF_SIGNING, words_trust.SPANISH, words_automatic.SPANISH),
    *(words_versions.SPANISH, words_weights.SPANISH, OF_LABELS, OF_PERSONAL, OF_REASONS),
)
