"""What the node says, as pages, forms and refusals show it to a reader of another language."""

from __future__ import annotations

import orjson

from .conftest import Client
from .fake_node import FakeNode

SPANISH = {"Accept-Language": "es-MX, en;q=0.5"}


async def test_the_feed_is_said_in_the_readers_language(client: Client, node: FakeNode) -> None:
    await node.feed.publish("peer_joined", "<b> joined at 1.2.3.4:5")
    await node.feed.publish("new", "nobody has <i>translated</i> this")
    page = await (await client.get("/", headers=SPANISH)).get_data(as_text=True)
    assert "&lt;b&gt; se unió en 1.2.3.4:5" in page
    assert '<span lang="en">nobody has &lt;i&gt;translated&lt;/i&gt; this</span>' in page
    english = await (await client.get("/")).get_data(as_text=True)
    assert "&lt;b&gt; joined at 1.2.3.4:5" in english and '<span lang="en">' not in english


async def test_files_for_scripts_stay_english(client: Client, node: FakeNode) -> None:
    await node.feed.publish("peer_joined", "b joined at 1.2.3.4:5")
    answer = await client.get("/events.jsonl", headers=SPANISH)
    *_, last = (await answer.get_data()).splitlines()
    assert orjson.loads(last)["text"] == "b joined at 1.2.3.4:5"
    assert "shown" not in orjson.loads(last)


async def test_what_a_form_was_refused_for_is_said_too(client: Client) -> None:
    form = {"trainerId": "MNIST", "do": "jump"}
    answer = await client.post("/training/steer/form", form=form, headers=SPANISH, follow_redirects=True)
    assert "do: se esperaba stop, pause o resume" in await answer.get_data(as_text=True)
    answer = await client.post(
        "/training/params/form", form={"trainerId": "MNIST", "e": "0"}, headers=SPANISH, follow_redirects=True
    )
    assert "e: debe ser mayor o igual que 1 (llegó 0)" in await answer.get_data(as_text=True)


async def test_a_browser_is_told_in_its_language_what_was_refused_before_it_came_to_a_form(client: Client) -> None:
    browser = {**SPANISH, "Accept": "text/html"}
    answer = await (await client.get("/nothing", headers=browser)).get_json()
    assert answer["message"] == "there is nothing at '/nothing'"
    assert answer["shown"] == "no hay nada en '/nothing'"


async def test_scripts_and_readers_of_english_are_told_in_english_alone(client: Client) -> None:
    for headers in (SPANISH, {"Accept": "text/html"}, {**SPANISH, "Accept": "application/json"}):
        answer = await (await client.get("/nothing", headers=headers)).get_json()
        assert answer == {"error": "not_found", "message": "there is nothing at '/nothing'"}
