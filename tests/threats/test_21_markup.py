"""A peer gives itself, its trainers and its errors names that a page could take for markup."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from flnet.compute.export import OnnxGraph
from flnet.compute.standalone import page_of
from flnet.protocol.messages import HyperParams
from tests.threats.conftest import Serve
from tests.web.browsing import HERE, MARKS
from tests.web.fake_job import FakeJob
from tests.web.fake_node import FakeNode

pytestmark = MARKS
DO = "window.taken=1,alert(1)"
OUT = "http://192.0.2.1/x"
PAYLOADS = [
    f"<script>{DO}</script>",
    f"<ScRiPt>{DO}</sCrIpT>",
    f"</script><script>{DO}</script>",
    f"<script src={OUT}></script>",
    f"<img src=x onerror={DO}>",
    f'"><img src=x onerror="{DO}">',
    f"'><img src=x onerror='{DO}'>",
    f"<img/src/onerror={DO}>",
    f"<img src={OUT}>",
    f"<svg onload={DO}>",
    f"<svg/onload={DO}//",
    f"<svg><script>{DO}</script></svg>",
    f"</title><script>{DO}</script>",
    f"</textarea><script>{DO}</script>",
    f"</style><script>{DO}</script>",
    f"--><script>{DO}</script>",
    f"]]><script>{DO}</script>",
    f"<body onload={DO}>",
    f"<iframe src=javascript:{DO}>",
    f"<iframe srcdoc='<script>parent.{DO}</script>'>",
    f"<iframe src={OUT}></iframe>",
    f"<object data={OUT}></object>",
    f"<embed src={OUT}>",
    f"<link rel=stylesheet href={OUT}>",
    f"<style>@import '{OUT}';</style>",
    f"<style>*{{background:url({OUT})}}</style>",
    f"<base href={OUT}/>",
    f"<meta http-equiv=refresh content='0;url={OUT}'>",
    f"<form action={OUT}><input type=submit autofocus onfocus={DO}>",
    f"<input autofocus onfocus={DO}>",
    f"<details open ontoggle={DO}>",
    f"<video><source onerror={DO}></video>",
    f"<audio src={OUT} autoplay>",
    f"<math><mtext><script>{DO}</script></mtext></math>",
    f"<template><script>{DO}</script></template>",
    f"<a href=javascript:{DO} autofocus>x</a>",
    f"javascript:{DO}",
    f'" onmouseover="{DO}" x="',
    f"' autofocus onfocus='{DO}' x='",
    f'" style="background:url({OUT})" x="',
    f"{{{{ {DO} }}}}",
    "{% include '/etc/passwd' %}",
    f"${{{DO}}}",
    f"&lt;script&gt;{DO}&lt;/script&gt;",
    f"&#60;script&#62;{DO}&#60;/script&#62;",
    f"\\u003cscript\\u003e{DO}\\u003c/script\\u003e",
    f"%3Cscript%3E{DO}%3C/script%3E",
    f'<!--<img src="--><img src=x onerror={DO}>">',
    f"<scr\u0000ipt>{DO}</script>",
    f"\u202e<script>{DO}</script>\u2066",
]
PATHS = ("/", "/?fragment=main", "/view/models/MNIST", "/view/data", "/view/predict/MNIST", "/view/rounds/MNIST")
OURS = "script:not([src^='/web/']), img:not([src^='/web/']), iframe, object, embed, base, style, meta[http-equiv]"
HANDLERS = """() => [...document.querySelectorAll("*")].flatMap(one => [...one.attributes])
  .filter(one => one.name.startsWith("on") || /^\\s*javascript:/i.test(one.value) && one.name === "href").length"""


def poison(node: FakeNode, text: str, place: int) -> None:
    """A peer and a job of which everything that a peer can say holds the text."""
    trainer = f"JOB_{place}" if place else "MNIST"
    job = FakeJob(trainer, text, HyperParams(e=1, u=0.1, b=8), source=text, outcome=text, error=text)
    job.waiting_for = [text]
    node.jobs[trainer] = job
    words = {
        "trainer_label": text,
        "outcome": text,
        "error": text,
        "federated_learning_params": text,
        "phase": text,
    }
    others = {"trainer_id": text, "current_round": 2, "waiting_for": [text], "received": [text], "initiator": text}
    info = {"version": text, "lastNodeStatus": text, "jobsInfo": [words | others, words | {"trainer_id": trainer}]}
    name = text if len(text) <= 64 and text.isprintable() else f"peer {place}"  # as announcing demands
    node.add_peer(name, f"127.0.0.1:{4001 + place}", "dead" if place % 2 else "alive", text)
    node.around.append({"id": name, "address": text, "info": info, "error": text})


def hostile_record() -> dict[str, Any]:
    """A round in which every name and every reason is one of the texts."""
    return {
        **{"round": 0, "initiator": PAYLOADS[0], "outcome": PAYLOADS[1], "error": PAYLOADS[2]},
        **{"contributors": PAYLOADS[:20], "missing": PAYLOADS[20:], "exchanged_with": PAYLOADS[3]},
        **{
            "pre_fedavg_accuracy": 0.5,
            "post_fedavg_accuracy": 0.5,
            "left_out": dict(pairwise(PAYLOADS)),
        },
        "weighed": {text: {"weight": 0.02, "reason": text} for text in PAYLOADS},
    }


def test_there_are_fifty_of_them() -> None:
    assert len(set(PAYLOADS)) == 50


@pytest.mark.parametrize("language", ["en", "es"])  # in the second one, what is not translated gets a mark
@pytest.mark.asyncio(loop_scope="session")
async def test_whatever_peers_say_is_text(serving: Serve, node: FakeNode, chromium: Any, language: str) -> None:
    wrong: list[str] = []
    for place, text in enumerate(PAYLOADS):
        poison(node, text, place)
        node.feed.publish("update_received", text, "MNIST", peer=text)
        node.feed.publish("peer_declined", text, "MNIST", {"round": 0, "peer": text})
        node.feed.publish(text, text, text)
    node.jobs["MNIST"].records.append(hostile_record())
    async with serving() as port, asyncio.timeout(120):
        context = await chromium.new_context(locale=language)
        context.on("dialog", lambda dialog: wrong.append(dialog.message))
        context.on("request", lambda asked: None if HERE.match(asked.url) else wrong.append(asked.url))
        page = await context.new_page()
        page.on("console", lambda told: wrong.append(told.text) if "Content Security" in told.text else None)
        for path in (*PATHS, *(f"/sign-in?back=/{quote(text)}" for text in PAYLOADS[::10])):
            answer = await page.goto(f"http://127.0.0.1:{port}{path}")
            assert answer.status == 200, path
            assert await page.get_attribute("html", "lang") == (None if "fragment" in path else language)
            assert await page.evaluate("window.taken") is None, path
            assert await page.locator(OURS).count() == 0, path
            assert await page.evaluate(HANDLERS) == 0, path
        await page.goto(f"http://127.0.0.1:{port}/view/rounds/MNIST")
        await page.locator(".steps a").nth(9).click()  # the script shows the names and sentences
        assert await page.evaluate("window.taken") is None
        assert (
            await page.locator("[data-why]").evaluate_all("all => all.filter(one => one.children.length).length")
            == 0
        )
        await context.close()
    assert wrong == []


@pytest.mark.asyncio(loop_scope="session")
async def test_what_comes_while_the_page_is_open_is_text_too(
    serving: Serve, node: FakeNode, chromium: Any
) -> None:
    wrong: list[str] = []
    async with serving() as port, asyncio.timeout(120):
        page = await (await chromium.new_context()).new_page()
        page.on("dialog", lambda dialog: wrong.append(dialog.message))
        page.on("request", lambda asked: None if HERE.match(asked.url) else wrong.append(asked.url))
        async with page.expect_response(lambda answer: "/events" in answer.url):
            await page.goto(f"http://127.0.0.1:{port}/")
        for place, text in enumerate(PAYLOADS):
            poison(node, text, place)
            node.feed.publish("round_closed", text, "MNIST", peer=text)
        node.feed.publish("round_closed", "the last one", "MNIST")
        await page.locator(".events > li", has_text="the last one").first.wait_for()
        assert await page.evaluate("window.taken") is None
        assert await page.locator(OURS).count() == 0
        assert await page.evaluate(HANDLERS) == 0
        await page.context.close()
    assert wrong == []


@pytest.mark.asyncio(loop_scope="session")
async def test_an_exported_page_shows_names_as_text(chromium: Any, tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="the extra onnx is not installed")
    names, count = [text for text in PAYLOADS if "=" not in text], len(PAYLOADS)
    names += [f"{text.partition('=')[0]} {place}={text}" for place, text in enumerate(PAYLOADS) if "=" in text]
    model = OnnxGraph("T", (count,)).dense(np.eye(count), np.zeros(count)).softmax().to_bytes()
    inputs = {"kind": "table", "shape": [count], "low": None, "high": None, "names": names, "gaps": True}
    wrong: list[str] = []
    context = await chromium.new_context(offline=True)
    context.on("dialog", lambda dialog: wrong.append(dialog.message))
    context.on("request", lambda asked: None if asked.url.startswith("file:") else wrong.append(asked.url))
    page = await context.new_page()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda told: wrong.append(told.text))
    for text in PAYLOADS[::7]:
        told = {"label": text, "note": text, "digest": text, "accuracy": "0.5", "round": "1", "predicts": "one_of"}
        metadata = {**told, "inputs": json.dumps({**inputs, "hint": text}), "classes": json.dumps(PAYLOADS)}
        (tmp_path / "page.html").write_bytes(page_of(model, metadata, text))
        await page.goto((tmp_path / "page.html").as_uri())
        await page.get_by_role("button").click()
        await page.locator("[data-predicted]").wait_for()
        assert await page.evaluate("window.taken") is None
        assert await page.locator("script").count() == 2
        assert await page.locator("img, iframe, object, embed, base, svg, link, video, audio, a").count() == 0
        assert await page.evaluate(HANDLERS) == 0
    await context.close()
    assert wrong == []
