from __future__ import annotations

import orjson
from markupsafe import Markup

from flnet.node.base import FeedItem
from flnet.web.live import as_event
from flnet.web.said import MOST_SHOWN, Said, catalogue_of, say, shown


def test_what_is_known_is_said_in_the_language_of_the_page() -> None:
    assert say("es", "node-b joined at 127.0.0.1:4001", "peer_joined") == Said("node-b se unió en 127.0.0.1:4001")
    refused = say("es", "bad at 10.1.2.3:22 is not called: no node can be there", "address_refused")
    assert refused == Said("no se llama a bad en 10.1.2.3:22: ahí no puede haber ningún nodo")
    assert say("en", "node-b joined at 127.0.0.1:4001") == Said("node-b joined at 127.0.0.1:4001")
    assert say("es", "This node has no trainer.") == Said("Este nodo no tiene ningún entrenador.")


def test_what_nobody_translated_stays_and_is_marked_as_english() -> None:
    assert say("es", "something new") == Said("something new", "en")
    assert say("en", "something new") == Said("something new")
    assert shown("es", "something new") == Markup('<span lang="en">something new</span>')


def test_what_peers_say_stays_text() -> None:
    evil = "<script>alert(1)</script>{0.__class__}"
    assert shown("es", f"{evil} joined at 1.2.3.4:5") == Markup(
        "&lt;script&gt;alert(1)&lt;/script&gt;{0.__class__} se unió en 1.2.3.4:5"
    )
    assert shown("es", evil) == Markup('<span lang="en">&lt;script&gt;alert(1)&lt;/script&gt;{0.__class__}</span>')
    assert shown("en", evil) == Markup("&lt;script&gt;alert(1)&lt;/script&gt;{0.__class__}")


def test_nothing_is_nothing_and_long_words_are_cut() -> None:
    assert not say("es", None) and shown("es", None) == "" and shown("es", "") == ""
    assert say("es", "x" * 5000).text == "x" * (MOST_SHOWN - 1) + "…"
    assert say("es", "a\nb\u202ec").text == "a b\ufffdc"


def test_only_other_languages_have_a_catalogue() -> None:
    assert catalogue_of("en") is None and catalogue_of("xx") is None
    assert catalogue_of("es") is catalogue_of("es") is not None


def told(language: str | None = None) -> dict[str, object]:
    item = FeedItem(7, 0.0, "peer_joined", "b joined at 1.2.3.4:5", "", {"peer": "b"})
    event = as_event(item) if language is None else as_event(item, language)
    found = orjson.loads(event.split(b"data: ")[1])
    assert isinstance(found, dict)
    return found


def test_the_stream_brings_what_is_shown_beside_the_english_text() -> None:
    english = told()
    assert english["text"] == "b joined at 1.2.3.4:5" and "shown" not in english
    assert told("es") == {**english, "shown": "b se unió en 1.2.3.4:5", "shown_language": "es"}


def test_scripts_and_readers_of_unknown_languages_get_english_alone() -> None:
    assert told("en") == told("xx") == told("") == told()
