"""Every sentence that the node can say to people has its translation: found in the sources, by their syntax."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from flnet.web.said import catalogue_of, texts_of
from flnet.web.words import ENGLISH, LANGUAGES, translate
from tests.test_layout import ROOT
from tests.web.sentence_sources import GAP, Found, reads_like_words, sentences_in

ELSEWHERE = {
    "cli": "a terminal, not the page",
    "experiments": "a terminal, and reports in English",
    "simulation": "tests and experiments",
    "setting_types.py": "the node does not start; it is read in a terminal",
    "postponing.py": "for who writes code",
    "settings/": "the node does not start; it is read in a terminal",
    "contributions.py": "what is signed, and what `flnet audit` reads in a terminal",
    "keys/": "the node does not start, or `flnet doctor`: read in a terminal; spanish/events.py has its notice",
    "node/card.py": "a file in English",
    "node/keyed.py": "the node does not start; it is read in a terminal",
    "signing/fields.py": "headers of another program; for whoever writes it",
    "spoken.py": "words that are read aloud, the same in all languages",
    "store/disk": "what exactly is damaged, with names of files, for whoever mends it",
    "training/bringing.py": "a terminal, not the page",
    "training/fork_server.py": "the log",
    "training/forking.py": "the log",
    "training/samples.py": "a terminal, and files in English",
    "training/soundness.py": "a terminal, not the page",
    "web/access.py": "a table",
    "web/endpoint.py": "the REST API is described in English",
    "web/endpoints_nodes.py": "the REST API is described in English",
    "web/endpoints.py": "the REST API is described in English",
    "web/history_files.py": "files in English",
    "web/history_png.py": "a file in English; that it cannot be made stands in spanish/automatic.py",
    "web/guard.py": "answers to other sites",
    "web/metrics.py": "the figures are described in English, for programs",
    "web/operator_token.py": "the node does not start; it is read in a terminal",
    "web/openapi.py": "the REST API is described in English",
    "web/schemas/": "the REST API is described in English",
    "web/sentences.py": "patterns",
    "web/serve.py": "the node does not start; it is read in a terminal",
    "web/spanish/": "the translations themselves",
    "web/views/api.py": "the REST API is described in English",
}
"""Modules, or folders, whose words do not reach the page, and why."""
NO_SENTENCES = {
    "expected the part that is left out at each end, at least 0 and below 0.5; got {}",  # for who writes code
    "expected the part that is moved at each end, at least 0 and below 0.5; got {}",
    "expected a norm above 0, got {}",  # likewise
    "expected a rate above 0, got {}",  # likewise
    "expected a number above 0 and parts in [0, 1), got {} and {}",  # likewise
    "first moment",  # names of arrays
    "second moment",
    "expected at least 1 round and a part in [0, 1], got {} and {}",  # likewise
    "{} of the nodes, at least {}",  # what nodes compare with each other
    ", from round {}",  # likewise
    ", private heads",  # likewise
    "late updates",
    "up to {} rounds",
    "; nor on ",  # stands between two; the second is translated with "nor on"
    "it goes on with {}{}",  # two sentences, or one
    "{} damaged left out: {}{}",
    "{} reached the averaging of {}",  # a bug, which stops the round's processing
    "mlfedavg {} cumulative",  # how a goal is written
    '"accuracy>=0.98", "every accuracy>=0.9", "own accuracy>=0.9", "no-gain 5 0.001", "mlfedavg", "within 600"',
    '"every 6h", "new 100", "drift 0.05", "between 22:00-06:00", "battery>=30", "load<=0.8", "decline"',
    "iid, dirichlet:0.3, pathological:2, quantity:0.5, power:1, groups",
    "could not",  # never shown
    "MNIST, handwritten digits (LeCun, Cortes, Burges 1998): 70,000 images of 28x28",  # a terminal
    "CIFAR-10, photographs of ten kinds of things (Krizhevsky 2009): 60,000 images of 32x32",
    r"(.*) \(at (?:line (\d+), column \d+|end of document)\)",
    "numpy ndarray",
    "numpy dtype",
    "public, max-age=31536000, immutable",
    'attachment; filename="events.jsonl"',
}
"""What reads like words and is none that need a translation; {} for a gap."""


HOW = """These sentences are not said in {language}. Add each, with a name for every gap, to the table that fits in
flnet/web/spanish: events.py (by the event's kind), reasons.py (rounds, mesh), series.py (goals, going
back, what is kept), refusals.py (messages, requests, forms), training.py, data.py,
sources.py or trainers.py. flnet/web/sentences.py says what gaps of some names hold (as count does),
and which are translated themselves (reason, error, words ...). What is no sentence for the page goes to
ELSEWHERE or NO_SENTENCES in this file."""


def modules() -> Iterator[tuple[Path, str]]:
    """The files whose words may reach the page, with their names."""
    for folder in ("flnet", "trainers"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not any(name.removeprefix("flnet/").startswith(prefix) for prefix in ELSEWHERE):
                yield path, name


def shape(text: str) -> str:
    """A sentence of the catalogue with `GAP` for each of its gaps."""
    plain = re.sub(r"(?<!\{)\{[a-z_]+\}(?!\})", GAP, text)
    return plain.replace("{{", "{").replace("}}", "}")


def missing(language: str, found: list[Found]) -> list[Found]:
    """What has no translation, neither as a whole nor in all its parts."""
    known = {shape(text) for text in texts_of(language)}
    catalogue = catalogue_of(language)
    assert catalogue is not None

    def is_known(template: str) -> bool:
        if translate(language, template) != template:
            return True  # a text of the pages themselves
        whole = template.strip(" ;")
        parts = [part.strip() for part in whole.split("; ")]
        if template in known or whole in known or all(part in known or part in ("", GAP) for part in parts):
            return True
        return GAP not in whole and catalogue.say(whole) is not None

    return [one for one in found if written(one) not in NO_SENTENCES and not is_known(one.template)]


def written(found: Found) -> str:
    """The sentence as people write it."""
    return found.template.replace(GAP, "{}")


@pytest.mark.parametrize("language", [language for language in LANGUAGES if language != ENGLISH])
def test_every_sentence_that_reaches_people_has_its_translation(language: str) -> None:
    faults = missing(language, [one for path, name in modules() for one in sentences_in(path, name)])
    lines = [f"{one.where}: {written(one)!r}" for one in faults]
    assert not lines, "\n".join(["", *lines, "", HOW.format(language=LANGUAGES[language])])


def test_what_is_excepted_is_there() -> None:
    present = {path.relative_to(ROOT / "flnet").as_posix() for path in (ROOT / "flnet").rglob("*.py")}
    gone = [prefix for prefix in ELSEWHERE if not any(name.startswith(prefix) for name in present)]
    assert gone == []
    said = {written(one) for path, name in modules() for one in sentences_in(path, name)}
    assert said >= NO_SENTENCES


def test_a_sentence_without_translation_is_found(tmp_path: Path) -> None:
    source = tmp_path / "new.py"
    source.write_text(
        '''
"""This text is for those who read the code."""
def f(s, n, many):
    """This one, too."""
    log.warning("nobody sees this text")
    raise IllegalStep(f"this is a bug in {n}")
    s.tell("new", f"brand {n}")
    words = f"nobody knows {n!r} of {'these' if many else 'this one'}: {'a thing' if n else ''}"
    return f"{n} update{'s' * many}", "a-b_c", t("this is translated elsewhere"), "SELECT a FROM all the rest"
'''
    )
    found = missing("es", sentences_in(source, "new.py"))
    assert {(one.where, written(one)) for one in found} == {
        ("new.py:7", "brand {}"),
        ("new.py:8", "nobody knows {} of these: a thing"),
        ("new.py:8", "nobody knows {} of these: "),
        ("new.py:8", "nobody knows {} of this one: a thing"),
        ("new.py:8", "nobody knows {} of this one: "),
    }


def test_names_and_addresses_do_not_read_like_words() -> None:
    assert reads_like_words("no data here") and reads_like_words(f"{GAP} is not there")
    assert not any(map(reads_like_words, ("no_data", "text/html; charset=utf-8", "/view/models", GAP, "one")))
