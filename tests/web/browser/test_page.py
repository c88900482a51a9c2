"""The page in a real browser before a twin node: without script and live, every state, hostile names, fifty nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from flnet.rounds.view import VerticalView
from tests.leak_figures import CONFUSION, LEAKS
from tests.web.browsing import ASYNC_MARKS, HERE, check_looks_async
from tests.web.conftest import Running
from tests.web.fake_node import FakeNode
from tests.web.page.test_diagnostics import ESTIMATE, GROUPS, WAITING

pytestmark = ASYNC_MARKS
EVIL = "<img src=x onerror=alert(1)>"
STATES = ("alive", "suspect", "dead", "left", "pending", "dancing")
LIVE = "form[data-filter], html[data-script]"


class AsyncWatched:
    """The browser of `browsing.Watched`, for tests that serve the page in their own event loop."""

    def __init__(self, chromium: Any) -> None:
        self.chromium = chromium
        self.foreign: list[str] = []

    async def new_context(self, **options: Any) -> Any:
        context = await self.chromium.new_context(**options)
        context.on("request", self._check)
        return context

    async def new_page(self, **options: Any) -> Any:
        return await (await self.new_context(**options)).new_page()

    def _check(self, request: Any) -> None:
        if not HERE.match(request.url):
            self.foreign.append(request.url)


def mesh_of_three(node: FakeNode) -> None:
    """This node, one peer with the same job and another trainer, and one that does not answer."""
    other = FakeNode("NODE_2", 4001)
    peer_job = other.jobs["MNIST"]
    peer_job.round, peer_job.before, peer_job.after, peer_job.exchanged = 3, 0.9012, 0.9287, True
    node.jobs["MNIST"].round = 2
    node.add_peer("NODE_2", "127.0.0.1:4001")
    node.add_peer("NODE_3", "127.0.0.1:4002", "dead", "did not answer in 2 s")
    node.around = [
        {"id": "NODE_2", "address": "127.0.0.1:4001", "info": other.info(), "error": None},
        {"id": "NODE_3", "address": "127.0.0.1:4002", "info": None, "error": "did not answer in 2 s"},
    ]


@pytest.fixture
def browser(async_chromium: Any) -> Iterator[AsyncWatched]:
    watched = AsyncWatched(async_chromium)
    yield watched
    assert watched.foreign == []


async def test_a_person_starts_a_round_without_any_script(running: Running, node: FakeNode, browser: Any) -> None:
    mesh_of_three(node)
    requested: list[str] = []
    async with running() as port:
        context = await browser.new_context(java_script_enabled=False)
        page = await context.new_page()
        page.on("request", lambda request: requested.append(request.url))
        await page.goto(f"http://127.0.0.1:{port}/")
        assert await page.get_by_role("heading", name="MNIST Dataset").is_visible()
        assert await page.get_by_role("table", name="MNIST Dataset on the other nodes").is_visible()
        assert await page.get_by_role("cell", name="92.87 %", exact=True).is_visible()

        await page.get_by_role("button", name="Do a training round").first.click()
        await page.get_by_role("status").get_by_text("Round 3 of MNIST has been started.").wait_for()
        assert node.jobs["MNIST"].phase == "TRAINING"

        await page.get_by_role("button", name="Do a training round").first.click()
        await page.get_by_role("alert").filter(has_text="already").wait_for()  # while the next page comes

        await node.finish_round("MNIST", before=0.9123, after=0.9345)
        await page.get_by_role("link", name="Refresh").click()
        await page.locator("dd", has_text="93.45 %").wait_for()
        await page.locator(".outcome", has_text="Round 3 was averaged from 1 update.").wait_for()
    assert requested
    assert all(url.startswith(f"http://127.0.0.1:{port}/") for url in requested)


async def test_the_page_fits_a_phone_and_can_be_used_with_the_keyboard(
    running: Running, node: FakeNode, browser: Any
) -> None:
    mesh_of_three(node)
    async with running() as port:
        page = await browser.new_page(viewport={"width": 390, "height": 800})
        await page.goto(f"http://127.0.0.1:{port}/")
        assert await page.evaluate("document.documentElement.scrollWidth") <= 390
        focused: list[str] = []
        while len(focused) < 20 and focused.count("Do a training round") < 2:
            await page.keyboard.press("Tab")
            focused.append(await page.evaluate("document.activeElement.innerText"))
        assert focused[0] == "Skip to the content"
        assert {"Appearance", "Change the hyper-parameters", "Run these rounds"} <= set(focused)
        await page.keyboard.press("Enter")
        await page.get_by_role("status").wait_for()
        assert node.jobs["MNIST_3_7"].phase == "TRAINING"


@pytest.mark.parametrize("stage", ["asking", "aligning", "training", "closing"])
async def test_each_stage_of_a_vertical_job_can_be_read_by_everybody(
    running: Running, node: FakeNode, page: Any, stage: str
) -> None:
    shown = node.jobs["MNIST"]
    shown.phase = "TRAINING" if stage in ("training", "closing") else "ALIGNING"
    shown.more = {"vertical": VerticalView.model_validate(vertical_view(stage))}
    async with running() as port:
        await page.goto(f"http://127.0.0.1:{port}/")
        current = page.locator(".stages [aria-current=step]")
        assert await current.count() == 1
        assert await page.get_by_role("table", name="Who holds which columns of MNIST Dataset").is_visible()
        await page.get_by_text("the rows are few").wait_for()
        await check_looks_async(page)


def vertical_view(stage: str) -> dict[str, Any]:
    bank = {"peer": "NODE_2", "columns": 30, "names": [f"column_{n}" for n in range(30)], "has_label": False}
    here = {"peer": "NODE_1", "columns": 3, "names": [], "has_label": True, "rows": 850, "defences": ["noise"]}
    return {
        **{"holders": [{**bank, "rows": 800}, here], "common": 683, "epochs": 4, "stage": stage},
        **{"step": 5, "steps": 9 if stage in ("training", "closing") else 0, "loss": 0.5, "accuracy": 0.75},
        **{"own": {"accuracy": 0.7}, "gain": {"accuracy": 0.05}, "warnings": ["the rows are few"]},
    }


MORPH = """async () => {
  const { morph } = await import("/web/morph.js");
  const main = document.getElementById("main");
  const make = (html) => Object.assign(document.createElement("main"), { innerHTML: html });
  main.replaceChildren(...make(`<p>gone</p><ul><li data-key="a">a</li><li data-key="b">b</li></ul>
    <details><summary>s</summary><input name="x" value="1"></details><i data-keep>mine</i><b>1</b>`).childNodes);
  const [a, b] = main.querySelectorAll("li");
  const field = main.querySelector("input");
  main.querySelector("details").open = true;
  field.value = "typed";
  field.focus();
  morph(main, make(`<ul><li data-key="b">B</li><li data-key="c">c</li><li data-key="a">a</li></ul>
    <details class="new"><summary>t</summary><input name="x" value="2"></details>
    <i data-keep>theirs</i><b>2</b><em>new</em>`));
  const items = [...main.querySelectorAll("li")];
  return {
    same: items[0] === b && items[2] === a && main.querySelector("input") === field,
    text: items.map((item) => item.textContent).join(""),
    open: main.querySelector("details").open && main.querySelector("details").className === "new",
    typed: field.value, standing: field.defaultValue, focus: document.activeElement === field,
    kept: main.querySelector("i").textContent, changed: main.querySelector("b").textContent,
    added: main.querySelectorAll("em").length, gone: main.querySelectorAll("p").length,
  };
}"""


async def test_a_part_of_the_page_becomes_another_without_losing_what_is_the_persons(
    running: Running, browser: Any
) -> None:
    async with running() as port:
        page = await browser.new_page()
        await page.goto(f"http://127.0.0.1:{port}/?fragment=main")  # without script of ours that would change it
        assert await page.evaluate(MORPH) == {
            **{"same": True, "text": "Bca", "open": True, "typed": "typed", "standing": "2", "focus": True},
            **{"kept": "mine", "changed": "2", "added": 1, "gone": 0},
        }


async def test_what_is_refused_before_it_comes_to_a_form_is_told_too(
    running: Running, node: FakeNode, browser: Any
) -> None:
    async with running() as port:
        page = await browser.new_page()
        await page.goto(f"http://127.0.0.1:{port}/")
        await page.locator(LIVE).first.wait_for(state="attached")
        too_long = "input => { input.value = 'x'.repeat(100_000); input.form.requestSubmit(); }"
        await page.locator("input[name=trainerId]").first.evaluate(too_long)  # at once: an update would undo it
        await page.get_by_role("alert").filter(has_text="bytes").wait_for()
        assert await page.get_by_role("heading", name="MNIST Dataset").is_visible()


async def test_no_rule_is_broken_during_a_round_with_an_error_and_a_peer_that_is_gone(
    running: Running, node: FakeNode, browser: Any
) -> None:
    mesh_of_three(node)
    job = node.jobs["MNIST"]
    job.phase, job.progress, job.waiting_for = "TRAINING", {"done": 3, "total": 10}, ["<img src=x>", "NODE_2"]
    node.jobs["MNIST_3_7"].error = "training diverged"
    node.feed.publish("peer_lost", "NODE_3 does not answer", peer="NODE_3")
    async with running() as port:
        page = await browser.new_page()
        await page.goto(f"http://127.0.0.1:{port}/")
        await page.locator("form[data-filter]").wait_for()
        assert await page.locator("progress").count() == 1
        assert await page.get_by_text("training diverged").is_visible()
        await check_looks_async(page)


async def test_after_more_events_than_are_kept_the_page_shows_what_is_now(
    running: Running, node: FakeNode, browser: Any
) -> None:
    fetched: list[str] = []
    async with running() as port:
        context = await browser.new_context()
        page = await context.new_page()
        await page.goto(f"http://127.0.0.1:{port}/")
        await page.locator(LIVE).first.wait_for(state="attached")
        await context.set_offline(True)
        await page.locator("#connection").get_by_text("is lost").wait_for()
        for number in range(node.feed.keep + 100):
            node.feed.publish("round_closed", f"closed {number}", "MNIST")
        page.on("request", lambda request: fetched.append(request.url) if "fragment" in request.url else None)
        await context.set_offline(False)
        await page.locator(".events > li", has_text=f"closed {node.feed.keep + 99}").wait_for()
        await page.wait_for_function("() => document.querySelectorAll('.events > li').length === 50")
        assert len(fetched) < 10


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


@pytest.mark.parametrize("page", [{"locale": "es"}], indirect=True)
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
        chips = await page.locator(".mesh-part tbody th + td .chip:first-child").all_inner_texts()
        assert {"sospechoso", "dancing"} <= set(chips)  # and a word that nobody has translated
        await check_looks_async(page)


async def test_fifty_nodes_are_drawn_apart_and_a_phone_has_the_table_alone(
    running: Running, node: FakeNode, page: Any
) -> None:
    for place in range(50):
        meet(node, f"node-{place:02}", 4001 + place, "suspect" if place == 7 else "alive")
    async with running() as port:
        await page.goto(f"http://127.0.0.1:{port}/")
        assert await page.locator(".mesh-part tbody tr").count() == 51
        drawn = page.locator(".mesh")
        for width in (360, 1280):
            await page.set_viewport_size({"width": width, "height": 900})
            assert await page.evaluate("document.documentElement.scrollWidth") <= width
            assert await drawn.is_visible() == (width == 1280)
        boxes = await page.evaluate(
            "[...document.querySelectorAll('.mesh .dot circle')].map((part) => part.getBoundingClientRect())"
        )
        centres = {(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2) for box in boxes}
        nearest = min(abs(complex(*a) - complex(*b)) for a in centres for b in centres if a != b)
        assert len(centres) == 51 and nearest > max(box["width"] for box in boxes[2:])
        assert await page.locator(".mesh text").evaluate_all(
            "all => all.every((part) => part.getBoundingClientRect().height >= 9)"
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


MOVES = """edge => {
  edge.dataset.lit = "back";
  return getComputedStyle(edge).animationName;
}"""


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
            node.feed.publish("update_received", "came", "MNIST", peer=EVIL)
        await page.locator('.edge[data-lit="back"]').wait_for(state="attached")
        await page.locator(".edge:not([data-lit])").wait_for(state="attached")
        assert await page.evaluate("window.changes") <= 4  # lit, perhaps once more after a pause, and put out
        for motion, name in (("reduce", "none"), ("no-preference", "along")):
            await page.emulate_media(reduced_motion=motion)
            assert await page.locator(".edge").evaluate(MOVES) == name


@pytest.mark.parametrize("page", [{"locale": "es"}], indirect=True)
async def test_diagnostics_break_no_rule_and_a_matrix_stays_a_table(
    running: Running, node: FakeNode, page: Any
) -> None:
    node.studies.found = {"labels": {**ESTIMATE, "pooled": True, "waiting": WAITING}, "groups": GROUPS}
    node.studies.found |= {"leaks": LEAKS, "confusion": CONFUSION}
    async with running() as port:
        for kind in ("groups", "leaks", "confusion", "labels"):
            await page.goto(f"http://127.0.0.1:{port}/view/{kind}/MNIST")
            await check_looks_async(page)
        await page.set_viewport_size({"width": 360, "height": 800})
        cells = page.locator(".matrix tbody tr:first-child td")
        tops = {(await cells.nth(column).bounding_box())["y"] for column in range(3)}
        assert len(tops) == 1  # beside each other, on a phone too


PROPOSALS = [
    {"by": "NODE_1", "rule": "median", "state": "taken", "not_taken": ["NODE_2"], "declined_by": ["NODE_3"]},
    {"by": "NODE_2", "rule": "clip,agg1", "state": "open", "not_taken": ["NODE_1"], "declined_by": []},
    {"by": "<img src=x>", "rule": "agg0", "state": "open", "not_taken": ["NODE_1"], "declined_by": ["NODE_1"]},
]
BUTTONS = {
    "en": ("Withdraw it", "Take this rule", "Decline it"),
    "es": ("Retirarla", "Aceptar esta regla", "Rechazarla"),
}


@pytest.mark.parametrize(
    ("page", "language"), [({"locale": "en"}, "en"), ({"locale": "es"}, "es")], indirect=["page"]
)
async def test_proposed_rules_are_taken_declined_and_withdrawn(
    running: Running, node: FakeNode, page: Any, language: str
) -> None:
    shown = [{**proposal, "mark": str(number) * 32} for number, proposal in enumerate(PROPOSALS)]
    node.jobs["MNIST"].more = {"rule_proposals": shown, "next_rule": "trimmed-mean:0.2"}
    withdraw, take, decline = BUTTONS[language]
    async with running() as port:
        await page.goto(f"http://127.0.0.1:{port}/")
        await page.get_by_text("trimmed-mean:0.2").first.wait_for()
        assert [await page.get_by_role("button", name=name).count() for name in (withdraw, take, decline)] == [
            1,
            2,
            1,
        ]
        await check_looks_async(page)
        for number, name in enumerate((withdraw, take, decline)):
            await page.get_by_role("button", name=name).first.click()
            await page.locator("[role=status], [role=alert]").filter(has_text=".").first.wait_for()
            while len(node.rule_changes.said) <= number:
                await asyncio.sleep(0.01)
    said = [("MNIST", "withdraw"), ("MNIST", "take", "1" * 32), ("MNIST", "decline", "1" * 32)]
    assert node.rule_changes.said == said
