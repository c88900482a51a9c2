"""The mesh on the page in a real browser before a twin node: every state, hostile names, fifty nodes."""

from __future__ import annotations

from typing import Any

import pytest

from .browsing import ASYNC_MARKS, rules
from .conftest import Running
from .fake_node import FakeNode

pytestmark = ASYNC_MARKS
EVIL = "<img src=x onerror=alert(1)>"
STATES = ("alive", "suspect", "dead", "left", "pending", "dancing")


def meet(node: FakeNode, name: str, port: int, state: str = "alive", waits_for: tuple[str, ...] = ()) -> None:
    """A peer in this state; where it answers, it has another model of MNIST than this node."""
    address = f"127.0.0.1:{port}"
    node.add_peer(name, address, state, "" if state == "alive" else f"because of {EVIL}")
    node.known[-1] = {**node.known[-1], "rtt_ms": 12.5}
    job = {"trainer_id": "MNIST", "trainer_label": EVIL, "current_round": 2, "phase": "GATHERING"}
    job |= {"digest": "ab" * 32, "waiting_for": list(waits_for)}
    info = {"version": "1.0", "jobsInfo": [job]} if state == "alive" else None
    node.around.append({"id": name, "address": address, "info": info, "error": None})


def all_states(node: FakeNode) -> None:
    """A peer in every state, and one with markup for a name."""
    del node.jobs["MNIST_3_7"]
    node.jobs["MNIST"].digest = "cd" * 32
    for place, state in enumerate(STATES):
        meet(node, f"is_{state}", 4001 + place, state)
    meet(node, EVIL, 4100, waits_for=("is_suspect", EVIL))


@pytest.mark.parametrize(
    "page",
    [
        {"color_scheme": "light", "viewport": {"width": 1280, "height": 900}},
        {"color_scheme": "dark", "viewport": {"width": 360, "height": 800}, "locale": "es"},
    ],
    indirect=True,
)
async def test_every_state_has_a_shape_and_words_and_breaks_no_rule(
    running: Running, node: FakeNode, page: Any
) -> None:
    all_states(node)
    async with running() as port:
        await page.goto(f"http://127.0.0.1:{port}/")
        shapes = {
            await dot.get_attribute("data-id"): await dot.evaluate(
                "dot => dot.children[1].outerHTML.split(/ [cx]/)[0]"
            )
            for dot in await page.locator(".mesh .dot").all()
        }
        known = [shapes[f"is_{state}"] for state in ("alive", "suspect", "left", "pending", "dancing")]
        assert len(set(known)) >= 4
        assert shapes["is_dead"] != shapes["is_alive"]
        spanish = await page.evaluate("document.documentElement.lang") == "es"
        chips = page.locator(".mesh-part tbody th + td .chip:first-child")
        assert (
            "sospechoso" in await chips.all_inner_texts()
            if spanish
            else "suspect" in await chips.all_inner_texts()
        )
        assert "dancing" in await chips.all_inner_texts()  # a word that nobody has translated
        found = await page.evaluate(rules())
        assert found["violations"] == []
        width = await page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert width[0] <= width[1]


async def test_markup_in_a_peers_name_is_text(running: Running, node: FakeNode, page: Any) -> None:
    all_states(node)
    async with running() as port:
        await page.goto(f"http://127.0.0.1:{port}/")
        assert await page.locator(".mesh-part th", has_text=EVIL).count() == 1
        assert await page.locator("img[src=x]").count() == 0
        assert await page.locator(".mesh .dot title", has_text=EVIL).count() == 1
        waits = page.locator(".mesh .waits")
        assert await waits.count() == 1
        assert await waits.get_attribute("data-awaited") == "is_suspect"
        assert await waits.locator("title").text_content() == f"{EVIL} waits for is_suspect"


@pytest.mark.parametrize(
    "page", [{"viewport": {"width": width, "height": 900}} for width in (1280, 360)], indirect=True
)
async def test_fifty_nodes_are_drawn_apart_and_a_phone_has_the_table_alone(
    running: Running, node: FakeNode, page: Any
) -> None:
    for place in range(50):
        meet(node, f"node-{place:02}", 4001 + place, "suspect" if place == 7 else "alive")
    async with running() as port:
        await page.goto(f"http://127.0.0.1:{port}/")
        assert await page.locator(".mesh-part tbody tr").count() == 51
        width = await page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert width[0] <= width[1]
        drawn = page.locator(".mesh")
        assert await drawn.is_visible() == (width[1] > 1000)
        if width[1] < 1000:
            return
        boxes = await page.evaluate(
            "[...document.querySelectorAll('.mesh .dot circle')].map((one) => one.getBoundingClientRect())"
        )
        centres = {(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2) for box in boxes}
        nearest = min(abs(complex(*a) - complex(*b)) for a in centres for b in centres if a != b)
        assert len(centres) == 51 and nearest > max(box["width"] for box in boxes[2:])
        assert await page.locator(".mesh text").evaluate_all(
            "all => all.every((one) => one.getBoundingClientRect().height >= 9)"
        )


@pytest.mark.parametrize("page", [{"java_script_enabled": False}], indirect=True)
async def test_lines_of_a_chart_are_hidden_with_the_keyboard_and_without_script(
    running: Running, node: FakeNode, page: Any
) -> None:
    node.jobs["MNIST"].records = [
        {"round": number, "pre_fedavg_accuracy": number / 8, "post_fedavg_accuracy": number / 4}
        for number in range(3)
    ]
    async with running() as port:
        await page.goto(f"http://127.0.0.1:{port}/")
        lines = page.locator("figure.chart > svg .line")
        assert [await line.is_visible() for line in await lines.all()] == [True, True]
        box = page.get_by_role("checkbox", name="NODE_1, before")
        await box.focus()
        await box.press("Space")
        assert await page.locator("figure.chart > svg .line-1 path").is_hidden()
        assert await page.locator("figure.chart > svg .line-0 path").is_visible()
        assert await page.locator("figcaption .line-1 circle").is_visible()  # the legend still shows which it is
        await box.press("Space")
        assert await page.locator("figure.chart > svg .line-1 path").is_visible()


async def test_a_hidden_line_stays_hidden_when_the_chart_goes_on(
    running: Running, node: FakeNode, page: Any
) -> None:
    node.jobs["MNIST"].records = [
        {"round": number, "pre_fedavg_accuracy": number / 8, "post_fedavg_accuracy": number / 4}
        for number in range(3)
    ]
    node.jobs["MNIST"].round = 3
    async with running() as port:
        await page.goto(f"http://127.0.0.1:{port}/")
        await page.get_by_role("checkbox", name="NODE_1, before").uncheck()
        await node.finish_round("MNIST", before=0.625, after=0.875)
        await page.locator("figcaption", has_text="87.50 %").wait_for()
        assert await page.locator("figure.chart > svg .line-1 path").is_hidden()
        assert not await page.get_by_role("checkbox", name="NODE_1, before").is_checked()


WAYS = """async (port) => {
  const { ways } = await import(document.querySelector("script[src*=live]").src.replace("live.js", "mesh.js"));
  const of = (kind, data) => ways({ kind, data }, "me");
  return [of("update_received", { peer: "b" }), of("fetching", { peer: "b" }), of("exchanged", { peer: "b" }),
    of("trained", {}), of("round_opened", { initiator: "me" }), of("round_opened", { initiator: "b" }),
    of("measured", { peer: "b" }), of("update_received", null)];
}"""


async def test_which_events_say_that_a_model_moved(running: Running, page: Any) -> None:
    async with running() as port:
        await page.goto(f"http://127.0.0.1:{port}/")
        came, went = [["b", "me"]], [["me", None]]
        assert await page.evaluate(WAYS) == [came, came, came, went, went, came, [], []]


@pytest.mark.parametrize(
    "page", [{"reduced_motion": motion} for motion in ("reduce", "no-preference")], indirect=True
)
async def test_lines_light_up_once_for_many_events_and_move_for_those_who_like_it(
    running: Running, node: FakeNode, page: Any
) -> None:
    meet(node, EVIL, 4001)
    async with running() as port:
        async with page.expect_response(lambda answer: "/events" in answer.url):
            await page.goto(f"http://127.0.0.1:{port}/")
        await page.evaluate(
            """() => { window.changes = 0;
            new MutationObserver((all) => { window.changes += all.length; })
              .observe(document.querySelector(".mesh"), { subtree: true, attributeFilter: ["data-lit"] }); }"""
        )
        for _ in range(20):
            await node.feed.publish("update_received", "came", "MNIST", peer=EVIL)
        await page.locator('.edge[data-lit="back"]').wait_for(state="attached")
        moves = await page.locator(".edge").evaluate("edge => getComputedStyle(edge).animationName")
        still = await page.evaluate("matchMedia('(prefers-reduced-motion: reduce)').matches")
        assert moves == ("none" if still else "along")
        await page.locator(".edge:not([data-lit])").wait_for(state="attached")
        assert await page.evaluate("window.changes") <= 4  # lit, perhaps once more after a pause, and put out
