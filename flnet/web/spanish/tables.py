"""All tables together: the texts of the pages, events by their kind, and sentences of the node."""

from __future__ import annotations

from collections.abc import Mapping

from flnet.web.spanish import (
    access,
    automatic,
    data,
    events,
    findings,
    goals,
    importing,
    keys,
    labels,
    page,
    personal,
    reasons,
    refusals,
    series,
    signing,
    sources,
    trainers,
    training,
    trust,
    versions,
    views,
    weights,
)

PAGES: Mapping[str, str] = {
    **access.SPANISH,
    **views.SPANISH,
    **findings.PAGES,
    **importing.SPANISH,
    **goals.SPANISH,
    **automatic.PAGES,
    **keys.SPANISH,
    **page.SPANISH,
    **versions.PAGES,
    **personal.PAGES,
    **weights.PAGES,
}
EVENTS: Mapping[str, Mapping[str, str]] = {  # by kind
    **events.SPANISH,
    **trust.EVENTS,
    **automatic.EVENTS,
    **versions.EVENTS,
    **weights.EVENTS,
}
SENTENCES = (
    *(trainers.SPANISH, sources.SPANISH, data.SPANISH, training.SPANISH, series.SPANISH, refusals.SPANISH),
    *(access.REFUSALS, keys.REFUSALS, signing.SPANISH, trust.SPANISH, automatic.SPANISH),
    *(versions.SPANISH, weights.SPANISH, labels.SPANISH, personal.SPANISH, reasons.SPANISH),
)
