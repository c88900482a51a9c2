"""Everything in Spanish in one place: each table of each file of words is in it."""

from __future__ import annotations

import importlib

from flnet.web import spanish
from tests.test_layout import ROOT

OF_SENTENCES, OF_EVENTS = ("SPANISH", "REFUSALS"), "EVENTS"


def test_no_table_of_words_is_left_out() -> None:
    known = {english for table in (spanish.PAGES, *spanish.SENTENCES) for english in table}
    files = sorted(path.stem for path in (ROOT / "flnet" / "web" / "spanish").glob("[a-z]*.py"))
    assert len(files) > 10
    for name in (one for one in files if one != "tables"):
        tables = vars(importlib.import_module(f"flnet.web.spanish.{name}"))
        events = tables["SPANISH"] if name == "events" else tables.get(OF_EVENTS, {})
        assert events.items() <= spanish.EVENTS.items(), name
        if name != "events":
            assert {english for each in OF_SENTENCES for english in tables.get(each, {})} <= known, name
