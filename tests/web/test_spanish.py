"""Everything in Spanish in one place: each table of each file of words is in it."""

from __future__ import annotations

import importlib

from flnet.web import spanish
from tests.test_layout import ROOT

OF_SENTENCES, OF_EVENTS = ("SPANISH", "REFUSALS"), "EVENTS"


def test_no_table_of_words_is_left_out() -> None:
    known = {english for table in (spanish.PAGES, *spanish.SENTENCES) for english in table}
    files = sorted(path.stem for path in (ROOT / "flnet" / "web").glob("words_*.py"))
    assert len(files) > 10
    for name in files:
        tables = vars(importlib.import_module(f"flnet.web.{name}"))
        events = tables["SPANISH"] if name == "words_events" else tables.get(OF_EVENTS, {})
        assert events.items() <= spanish.EVENTS.items(), name
        if name != "words_events":
            assert {english for each in OF_SENTENCES for english in tables.get(each, {})} <= known, name
