from __future__ import annotations

import ast
import re
from pathlib import Path
from string import Formatter

import pytest

from flnet.web.spanish import PAGES as SPANISH
from flnet.web.spanish.page import SPANISH as OF_THE_PAGE
from flnet.web.spanish.views import SPANISH as OF_THE_VIEWS
from flnet.web.words import ENGLISH, LANGUAGES, english, translate, translator
from tests.test_layout import ROOT

CALL = re.compile(r"\bt\(\s*(?:\"([^\"]*)\"|'([^']*)')")


def texts_in(template: str) -> set[str]:
    """The English texts that a template asks the translation of."""
    return {double or single for double, single in CALL.findall(template)}


def texts_of_code(source: str) -> set[str]:
    """The texts in `t("...")` in Python."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and node.args]
    asked = [call.args[0] for call in calls if isinstance(call.func, ast.Name) and call.func.id == "t"]
    return {text.value for text in asked if isinstance(text, ast.Constant) and isinstance(text.value, str)}


def places(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


@pytest.mark.parametrize("path", sorted((ROOT / "resources" / "web").glob("*.html")), ids=lambda path: path.name)
def test_every_text_of_the_templates_has_its_translation(path: Path) -> None:
    assert sorted(texts_in(path.read_text("utf-8")) - SPANISH.keys()) == []


@pytest.mark.parametrize(
    "path", sorted((ROOT / "flnet" / "web").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT))
)
def test_every_text_of_the_code_has_its_translation(path: Path) -> None:
    assert sorted(texts_of_code(path.read_text("utf-8")) - SPANISH.keys()) == []


def test_a_translation_has_the_same_places_as_its_text() -> None:
    assert {text: places(said) for text, said in SPANISH.items()} == {text: places(text) for text in SPANISH}


def test_no_text_has_two_translations() -> None:
    both = OF_THE_PAGE.keys() & OF_THE_VIEWS.keys()
    assert {text: OF_THE_VIEWS[text] for text in both} == {text: OF_THE_PAGE[text] for text in both}


def test_values_are_put_in_and_what_has_no_translation_stays() -> None:
    assert translate("es", "waiting for {names}", names="{a} & b") == "esperando a {a} & b"
    assert english("waiting for {names}", names="x") == "waiting for x"
    assert translator("es")("A text that nobody wrote {") == "A text that nobody wrote {"
    assert next(iter(LANGUAGES)) == ENGLISH


def test_a_text_without_translation_would_be_found() -> None:
    assert texts_in("{{ t(\"one\") }} {{ t('two {n}', n=1) }} {{ list('no') }}") == {"one", "two {n}"}
    assert texts_of_code('t("one"); t(other); u("no")') == {"one"}
