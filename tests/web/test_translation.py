"""Every text of the page and every sentence of the node has its translation, and readers are shown it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import orjson
import pytest
from babel.messages import Catalog, extract
from babel.messages.frontend import parse_mapping_cfg
from babel.messages.mofile import read_mo
from babel.messages.pofile import read_po
from markupsafe import Markup

from flnet.node.event_log import FeedItem
from flnet.settings import Settings
from flnet.text import SENTENCE_GAPS, Text, restored, text
from flnet.web.api.events import as_event
from flnet.web.api.openapi import describe
from flnet.web.page.api import groups_of
from flnet.web.page.settings import choices_of
from flnet.web.translation import (
    ENGLISH,
    LANGUAGES,
    MAX_SHOWN,
    Sentence,
    look_up,
    sentence_markup,
    translate,
    translate_markup,
    translate_sentence,
    translator,
)
from tests.test_layout import ROOT
from tests.web.conftest import Client
from tests.web.fake_node import FakeNode
from tests.web.page_reading import load
from tests.web.sentence_sources import reads_like_words, sentences_in

KEYWORDS = {"_": None, "t": None, "text": None}
OTHERS = [language for language in LANGUAGES if language != ENGLISH]
SPANISH = {"Accept-Language": "es-MX, en;q=0.5"}
FROM_VARIABLES = {"Yes", "No", "lost"}
"""Texts that are asked for by a variable: states of a round, and how a simulated network fails."""
ELSEWHERE = {
    "cli": "a terminal, not the page",
    "experiments": "a terminal, and reports in English",
    "simulation": "tests and experiments",
    "settings.py": "the node does not start; it is read in a terminal",
    "algorithms/differential_privacy.py": "a wrong setting; the node does not start",
    "algorithms/registry.py": "a wrong setting; the node does not start",
    "compute/privacy_accounting.py": "a wrong setting; the node does not start",
    "security/keys.py": "the node does not start, or `flnet doctor`: read in a terminal",
    "security/ownership.py": "the node does not start, or `flnet doctor`: read in a terminal",
    "text.py": "types",
    "installing.py": "commands",
    "joining.py": "a wrong setting; the node does not start",
    "fingerprints.py": "words that are read aloud, the same in all languages",
    "security/signatures.py": "headers of another program, for its author",
    "security/tls.py": "the log",
    "node/model_service.py": "the card of a model, a file in English",
    "protocol/updates.py": "what is signed, and what `flnet audit` reads in a terminal",
    "node/notices.py": "notices are in English; or the node does not start",
    "wire/notice_channels.py": "likewise",
    "store/backup.py": "a terminal, not the page",
    "store/repair.py": "what exactly is damaged, with names of files, for those who mend it",
    "store/state_folder.py": "likewise",
    "store/sqlite": "likewise",
    "datasets/archives.py": "a terminal, not the page",
    "compute/channel.py": "frames that no training child of this version sends",
    "compute/fork_server.py": "the log",
    "compute/training_child.py": "the log",
    "datasets/samples.py": "a terminal, and files in English",
    "datasets/download.py": "a terminal, not the page",
    "web/api/history.py": "files in English",
    "web/api/monitoring.py": "the figures are described in English, for programs",
    "web/api/openapi.py": "`described` reads what it says",
    "web/server.py": "the node does not start; it is read in a terminal",
}
"""Modules, or folders, whose words do not reach the page, and why."""
NAMES = {*choices_of("wire"), "/openapi.json"}
"""What pages of descriptions show that is the same in all languages, besides what is marked as code."""
NO_SENTENCES = {
    "it is no text",  # the cause of a failure, within a sentence that has a translation
    "closed before an answer came",  # likewise
    "the connection is closed, or the answer comes already",  # likewise
    "too many bytes besides the body of the answer",  # likewise
    "the connection was closed before TLS began",  # likewise
    "epsilon {}, delta {}, clip {}",  # what nodes state to each other, of which people read that it differs
    "{}, {} rounds, noise {}",  # likewise
    "merging rule",  # what nodes say to each other; people read "aggregation rule"
    "expected one result of each segment, got two of the same",  # what a message must be, for who wrote the program
    "flnet claim, version 1",  # what is signed begins with it
    "flnet segment, version 1",
    "flnet relay, version 1",
    "expected the part that is left out at each end, at least 0 and below 0.5; got {}",  # for who writes code
    "expected the part that is moved at each end, at least 0 and below 0.5; got {}",
    "expected a norm above 0, got {}",  # likewise
    "expected a rate above 0, got {}",  # likewise
    "expected a number above 0 and parts in [0, 1), got {} and {}",  # likewise
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    *("every accuracy >=", "own accuracy >=", "mlfedavg cumulative"),  # how a goal is written
    "first moment",  # names of arrays
    "second moment",
    "expected at least 1 round and a part in [0, 1], got {} and {}",  # likewise
    "{} of the nodes, at least {}",  # what nodes compare with each other
    ", from round {}",  # likewise
    ", private heads",  # likewise
    "late updates",
    "up to {} rounds",
    "epsilon {}, delta {}, clip {}, {} rounds, noise {}",
    "{} reached the averaging of {}",  # a bug, which stops the round's processing
    '"accuracy>=0.98", "every accuracy>=0.9", "own accuracy>=0.9", "no-gain 5 0.001", "mlfedavg", "within 600"',
    '"every 6h", "new 100", "drift 0.05", "between 22:00-06:00", "battery>=30", "load<=0.8", "decline"',
    "iid, dirichlet:0.3, pathological:2, quantity:0.5, power:1, groups",
    r"(.*) \(at (?:line (\d+), column \d+|end of document)\)",
    "public, max-age=31536000, immutable",
    'attachment; filename="events.jsonl"',
}
"""What reads like words and is none that need a translation; {} for a gap."""


# The catalogues


def extracted(folder: Path) -> Iterator[tuple[str, int, str]]:
    """File, line and text of all calls that ask for a translation."""
    with (ROOT / "babel.cfg").open(encoding="utf-8") as file:
        methods, options = parse_mapping_cfg(file)  # type: ignore[no-untyped-call]
    for name, line, message, *_ in extract.extract_from_dir(folder, methods, options, keywords=KEYWORDS):
        assert isinstance(message, str)
        yield name, line, message


def described() -> Iterator[tuple[str, int, str]]:
    """What the page looks up by its English words: name, place and text of each description."""
    for place, (name, field) in enumerate(Settings.model_fields.items()):
        yield f"settings: {name}", place, field.description or ""
    for place, endpoint in enumerate(endpoint for group in groups_of(describe()) for endpoint in group.endpoints):
        answers = [message for _, words in endpoint.answers for message in messages_of(words)]
        fields = [field.what_for for field in (*endpoint.fields, *endpoint.gives) if field.what_for]
        for message in (endpoint.summary, *answers, *fields):
            yield f"API: {endpoint.method} {endpoint.path}", place, message


def messages_of(words: str) -> Iterator[str]:
    """The message ids of a sentence and of those within it."""
    yield words.template if isinstance(words, Text) else words
    for name, value in words.params.items() if isinstance(words, Text) else ():
        if isinstance(value, Text) or (name in SENTENCE_GAPS and isinstance(value, str)):
            yield from messages_of(value)


def files_of(language: str) -> tuple[Catalog, Catalog]:
    """What people edit, and what is read at run time."""
    folder = ROOT / "flnet" / "web" / "locale" / language / "LC_MESSAGES"
    with (folder / "flnet.po").open("rb") as source, (folder / "flnet.mo").open("rb") as compiled:
        return read_po(source), read_mo(compiled)


def texts_of(catalogue: Catalog) -> dict[str, str]:
    return {str(message.id): str(message.string) for message in catalogue if message.id}


def has_letters(message: str) -> bool:
    """Whether there is anything to translate but what stands in the gaps."""
    return any(character.isalpha() for literal, *_ in Formatter().parse(message) for character in literal)


def places(message: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(message) if name is not None}


@pytest.mark.parametrize("language", OTHERS)
def test_every_text_has_its_translation_and_no_other_has(language: str) -> None:
    asked = [*extracted(ROOT), *described()]
    assert [at for at in asked if look_up(language, at[2]) is None and has_letters(at[2])] == []
    source, _ = files_of(language)
    assert texts_of(source).keys() - {message for *_, message in asked} == FROM_VARIABLES


@pytest.mark.parametrize("language", OTHERS)
def test_a_translation_has_the_same_places_as_its_text(language: str) -> None:
    source, _ = files_of(language)
    texts = texts_of(source)
    assert {message: places(other) for message, other in texts.items()} == {
        message: places(message) for message in texts
    }


@pytest.mark.parametrize("language", OTHERS)
def test_the_compiled_catalogue_is_that_of_the_source(language: str) -> None:
    source, compiled = files_of(language)
    assert texts_of(compiled) == texts_of(source), "run `make translations`"
    assert [message.id for message in source if message.id and message.fuzzy] == []


# Sentences in the sources


def test_every_sentence_that_people_may_read_is_a_text() -> None:
    faults = []
    for path in sorted([*(ROOT / "flnet").rglob("*.py"), *(ROOT / "trainers").rglob("*.py")]):
        name = path.relative_to(ROOT / "flnet").as_posix() if path.is_relative_to(ROOT / "flnet") else path.name
        if not name.startswith(tuple(ELSEWHERE)):
            faults += [found for found in sentences_in(path, name) if found.words not in NO_SENTENCES]
    assert faults == [], "make each a `flnet.text.text(...)` with a translation in flnet.po, or except it here"


def test_a_sentence_that_is_no_text_is_found(tmp_path: Path) -> None:
    source = tmp_path / "new.py"
    source.write_text(
        '''
"""This text is for those who read the code."""
def f(s, n, many):
    """This one, too."""
    log.warning("nobody sees this text")
    raise IllegalStep(f"this is a bug in {n}")
    s.tell("new", f"brand {n}")
    words = f"nobody knows {n!r} of these"
    return f"{n} update{'s' * many}", "a-b_c", text("this is {n}", f"no text in {n}"), "SELECT a FROM all the rest"
'''
    )
    faults = {(one.where, one.words) for one in sentences_in(source, "new.py")}
    assert faults == {
        ("new.py:7", "brand {}"),
        ("new.py:8", "nobody knows {} of these"),
        ("new.py:9", "no text in {}"),
    }
    assert not any(map(reads_like_words, ("no_data", "text/html; charset=utf-8", "/view/models", "{}", "one")))


# Texts of the page


def test_values_are_put_in_and_what_has_no_translation_stays() -> None:
    assert translate("es", "waiting for {names}", names="{a} & b") == "esperando a {a} & b"
    assert translate("en", "waiting for {names}", names="x") == "waiting for x"
    assert translator("es")("A text that nobody wrote {") == "A text that nobody wrote {"
    assert translate("xx", "Data") == translate("en", "Data") == "Data"
    assert look_up("es", "") is None
    assert next(iter(LANGUAGES)) == ENGLISH


def test_a_template_escapes_values_but_for_markup() -> None:
    assert translate_markup("es", "waiting for {names}", names="<b>") == Markup("esperando a &lt;b&gt;")
    assert translate_markup("es", "waiting for {names}", names=Markup("<b>")) == Markup("esperando a <b>")
    assert translate_markup("en", "<i> & {names}") == Markup("&lt;i&gt; &amp; {names}")


# Sentences of the node


def joined_at(peer: str, address: str = "1.2.3.4:5") -> str:
    return text("{peer} joined at {address}", peer, address)


def test_a_sentence_is_shown_in_the_language_of_the_page() -> None:
    sentence = joined_at("node-b")
    assert translate_sentence("es", sentence) == Sentence("node-b se unió en 1.2.3.4:5")
    assert translate_sentence("en", sentence) == Sentence("node-b joined at 1.2.3.4:5")
    assert translate_sentence("es", "This node has no trainer.") == Sentence(
        "Este nodo no tiene ningún entrenador."
    )


def test_what_has_no_translation_is_shown_and_marked_as_english() -> None:
    for words in ("something new", "b joined at 1.2.3.4:5", "{peer} joined at {address}"):
        assert translate_sentence("es", words) == Sentence(words, "en")
        assert translate_sentence("en", words) == Sentence(words)
    assert sentence_markup("es", "something new") == Markup('<span lang="en">something new</span>')
    declined = text("{peer} takes no part: {reason}", "b", "paused by a person here")  # as peers send a reason
    assert translate_sentence("es", declined) == Sentence("b no participa: una persona lo puso en pausa aquí")


def test_what_peers_say_stays_text() -> None:
    evil = "<script>alert(1)</script>{0.__class__}"
    assert sentence_markup("es", joined_at(evil)) == Markup(
        "&lt;script&gt;alert(1)&lt;/script&gt;{0.__class__} se unió en 1.2.3.4:5"
    )
    assert sentence_markup("es", evil) == Markup(
        '<span lang="en">&lt;script&gt;alert(1)&lt;/script&gt;{0.__class__}</span>'
    )
    assert sentence_markup("en", evil) == Markup("&lt;script&gt;alert(1)&lt;/script&gt;{0.__class__}")


def test_nothing_is_nothing_and_long_sentences_are_cut() -> None:
    assert translate_sentence("es", None) == translate_sentence("es", "") == Sentence("")
    assert sentence_markup("es", None) == ""
    for words in ("x" * 5000, joined_at("x" * 5000)):
        assert translate_sentence("es", words).text == "x" * (MAX_SHOWN - 1) + "…"
    assert translate_sentence("es", "a\nb\u202ec").text == "a b\ufffdc"


# Events, pages and refusals


def event(language: str | None = None) -> dict[str, object]:
    item = FeedItem(7, 0.0, "peer_joined", joined_at("b"), "", {"peer": "b"})
    sent = as_event(item) if language is None else as_event(item, language)
    data = orjson.loads(sent.split(b"data: ")[1])
    assert isinstance(data, dict)
    return data


def test_the_stream_brings_the_translation_beside_the_english_text() -> None:
    plain = event()
    assert plain["text"] == "b joined at 1.2.3.4:5" and "shown" not in plain
    assert event("es") == {**plain, "shown": "b se unió en 1.2.3.4:5", "shown_language": "es"}
    assert event("en") == event("xx") == event("") == plain


async def test_the_event_log_is_shown_in_the_readers_language(client: Client, node: FakeNode) -> None:
    node.feed.publish("peer_joined", joined_at("<b>"))
    node.feed.publish("new", "nobody has <i>translated</i> this")
    page = await (await client.get("/", headers=SPANISH)).get_data(as_text=True)
    assert "&lt;b&gt; se unió en 1.2.3.4:5" in page
    assert '<span lang="en">nobody has &lt;i&gt;translated&lt;/i&gt; this</span>' in page
    page = await (await client.get("/")).get_data(as_text=True)
    assert "&lt;b&gt; joined at 1.2.3.4:5" in page and '<span lang="en">' not in page


@pytest.mark.parametrize(
    "path", ["/view/settings?fragment=main", "/view/settings?fragment=main&change=wire", "/view/api?fragment=main"]
)
async def test_a_page_of_descriptions_has_no_english_words(client: Client, path: str) -> None:
    english, spanish = await load(client, path), await load(client, path, Accept_Language="es")
    assert len(english.words) == len(spanish.words)
    same = {words for words in set(english.words) & set(spanish.words) if any(map(str.isalpha, words))}
    assert same - {*english.code, *NAMES} == set()
    assert not [words for words in spanish.words if words.endswith("…")]
    assert [attrs for _, attrs in spanish.tags if attrs.get("lang") == ENGLISH] == []


async def test_files_for_scripts_stay_english(client: Client, node: FakeNode) -> None:
    node.feed.publish("peer_joined", joined_at("b"))
    answer = await client.get("/events.jsonl", headers=SPANISH)
    *_, last = (await answer.get_data()).splitlines()
    assert orjson.loads(last)["text"] == "b joined at 1.2.3.4:5"
    assert "shown" not in orjson.loads(last)


@pytest.mark.parametrize(
    ("form", "fields", "shown"),
    [
        ("steer", {"do": "jump"}, "do: se esperaba stop, pause o resume"),
        ("params", {"e": "0"}, "e: debe ser mayor o igual que 1 (llegó 0)"),
    ],
)
async def test_the_refusal_of_a_form_is_translated(
    client: Client, form: str, fields: dict[str, str], shown: str
) -> None:
    asked = {"trainerId": "MNIST", **fields}
    answer = await client.post(f"/training/{form}/form", form=asked, headers=SPANISH, follow_redirects=True)
    assert shown in await answer.get_data(as_text=True)


async def test_a_browser_is_told_in_its_language_what_was_refused_and_scripts_in_english_alone(
    client: Client,
) -> None:
    browser = {**SPANISH, "Accept": "text/html"}
    answer = await (await client.get("/nothing", headers=browser)).get_json()
    refused = {"error": "not_found", "message": "there is nothing at '/nothing'"}
    assert answer == {**refused, "shown": "no hay nada en '/nothing'"}
    for headers in (SPANISH, {"Accept": "text/html"}, {**SPANISH, "Accept": "application/json"}):
        assert await (await client.get("/nothing", headers=headers)).get_json() == refused


async def test_only_another_node_is_told_how_to_translate_a_refusal(client: Client) -> None:
    asked = f"/training/model_params/{'a' * 70}"
    refused = await (await client.get(asked)).get_json()
    assert isinstance(restored(refused["message"], refused["text"]), Text)
    assert "text" not in await (await client.get("/jobs/nobody")).get_json()
