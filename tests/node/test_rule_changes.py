"""Nodes in one process whose people propose an aggregation rule and take it, on the page, by REST and from a terminal."""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from flnet.cli.commands import cli
from flnet.errors import InvalidMessage, JobBusy, NoProposal, UnknownPeer, UnknownTrainer
from flnet.node.interface import EditHyperParams
from flnet.node.rule_changes import ASKED_AT_ONCE
from flnet.node.runtime import NodeRuntime
from flnet.params.params import PeerId, TrainerId
from flnet.settings import Settings
from flnet.store.memory import MemoryStore
from flnet.web.app import create_app
from tests.node.mesh import MNIST_3_7, Linear, Mesh, until
from tests.web.conftest import served

SECRET = "a secret that all know, long enough"


@pytest.fixture(params=[{}, {"mesh_key": SECRET}], ids=["open", "keyed"])
async def mesh(request: pytest.FixtureRequest) -> AsyncIterator[Mesh]:
    made = Mesh()
    for name, others in (("a", ()), ("b", ("a",)), ("c", ("a",))):
        await made.add(name, Linear(1.0), others, **request.param)
    await made.full()
    yield made
    await made.stop()


def shown(node: NodeRuntime) -> list[tuple[str, str, str, list[str]]]:
    return [(one.by, one.rule, one.state, one.not_taken) for one in node.job(MNIST_3_7).rule_proposals]


async def mark_at(node: NodeRuntime) -> str:
    """What the one proposal is called that a person sees who looks at the page of a node."""
    await node.peer_infos()
    await until(lambda: len(node.job(MNIST_3_7).rule_proposals) == 1)
    return node.job(MNIST_3_7).rule_proposals[0].mark


async def in_force(mesh: Mesh, rule: str) -> None:
    """Let the nodes ask each other until this rule is that of the next round everywhere."""
    for _ in range(5):
        for node in mesh.nodes.values():
            await node.rule_changes.check()
    await until(lambda: {node.job(MNIST_3_7).next_rule for node in mesh.nodes.values()} == {rule})


async def test_a_rule_is_in_force_when_people_of_all_nodes_have_taken_it(mesh: Mesh) -> None:
    a, b, c = mesh.nodes.values()
    await a.rule_changes.propose(MNIST_3_7, " clip:1000, median")
    assert shown(a) == [("a", "clip:1000,median", "taken", ["b", "c"])]
    await b.rule_changes.answer(MNIST_3_7, await mark_at(b), takes=True)
    await mesh.train()
    assert {node.job(MNIST_3_7).merging_rule for node in mesh.nodes.values()} == {"agg1"}
    assert shown(c) == [("a", "clip:1000,median", "open", ["c"])] or await mark_at(c)
    await c.rule_changes.answer(MNIST_3_7, await mark_at(c), takes=True)
    await in_force(mesh, "clip:1000,median")
    assert {node.job(MNIST_3_7).merging_rule for node in mesh.nodes.values()} == {"agg1"}
    await mesh.train("b")
    assert {node.job(MNIST_3_7).merging_rule for node in mesh.nodes.values()} == {"clip:1000,median"}
    assert len(mesh.digests()) == 1
    for node in mesh.nodes.values():
        assert [len(record["contributors"]) for record in node.history(MNIST_3_7)] == [3, 3]
        assert shown(node) == []
        assert not [item for item in node.feed.recent() if item.kind in ("refused", "differs")]


async def test_what_cannot_be_is_refused(mesh: Mesh) -> None:
    a, b, c = mesh.nodes.values()
    with pytest.raises(UnknownTrainer):
        await a.rule_changes.propose(TrainerId("NONE"), "median")
    for rule, words in (
        ("none such", "'none such' is no rule: expected agg0"),
        ("agg1", "the aggregation rule already"),
    ):
        with pytest.raises(InvalidMessage, match=words):
            await a.rule_changes.propose(MNIST_3_7, rule)
    with pytest.raises(NoProposal):
        await b.rule_changes.answer(MNIST_3_7, "0" * 32, takes=True)
    await a.rule_changes.propose(MNIST_3_7, "median")
    with pytest.raises(JobBusy, match="a proposes median: take it or decline it first"):
        await b.rule_changes.propose(MNIST_3_7, "agg0")
    with pytest.raises(JobBusy, match="withdraw that first"):
        await a.edit_hyper_params(MNIST_3_7, EditHyperParams(aggregation="agg0"))
    await b.rule_changes.answer(MNIST_3_7, await mark_at(b), takes=False)
    await a.peer_infos()
    await until(lambda: a.job(MNIST_3_7).rule_proposals[0].declined_by == ["b"])
    await a.rule_changes.withdraw(MNIST_3_7)
    with pytest.raises(NoProposal):
        await a.rule_changes.withdraw(MNIST_3_7)
    assert shown(a) == []
    with pytest.raises(NoProposal):
        await c.rule_changes.answer(MNIST_3_7, "0" * 32, takes=True)


async def test_all_of_it_outlives_a_restart_and_who_is_away_is_waited_for() -> None:
    made = Mesh()
    stores = {name: MemoryStore() for name in "ab"}
    try:
        for name, others in (("a", ()), ("b", ("a",))):
            await made.add(name, Linear(1.0), others, store=stores[name])
        await made.full()
        a, b = made.nodes.values()
        await a.rule_changes.propose(MNIST_3_7, "median")
        await b.rule_changes.answer(MNIST_3_7, await mark_at(b), takes=True)
        await b.leave()
        await b.stop()
        await until(lambda: a.peers()[0]["state"] == "left")
        again = await made.add("b", Linear(1.0), ("a",), store=stores["b"])
        await made.full()
        await until(
            lambda: shown(again) == [("a", "median", "taken", [])] or again.job(MNIST_3_7).next_rule == "median"
        )
        await in_force(made, "median")
        await made.train("b")
        assert {node.job(MNIST_3_7).merging_rule for node in made.nodes.values()} == {"median"}
    finally:
        await made.stop()


async def test_a_peer_that_a_person_forgot_is_waited_for_no_longer() -> None:
    made = Mesh()
    try:
        for name, others in (("a", ()), ("b", ("a",))):
            await made.add(name, Linear(1.0), others)
        await made.full()
        a, b = made.nodes.values()
        await a.rule_changes.propose(MNIST_3_7, "median")
        await b.leave()
        await until(lambda: a.peers()[0]["state"] == "left")
        await a.rule_changes.check()
        assert shown(a) == [("a", "median", "taken", ["b"])]
        a.core.members.state.roster.known.pop(PeerId("b"))  # as after a day
        a.core.members.state.roster.keys.clear()
        with pytest.raises(UnknownPeer):
            await a.forget("c")
        await a.forget("b")
        await until(lambda: a.job(MNIST_3_7).next_rule == "median")
        with pytest.raises(UnknownPeer):
            await a.forget("b")
    finally:
        await made.stop()


async def test_in_a_large_mesh_peers_are_asked_in_turns() -> None:
    asked: list[Any] = []
    peers = [{"id": f"p{n:02}", "state": "alive" if n % 2 else "left"} for n in range(100)]

    class Infos:
        async def ask(self, some: Any) -> list[Any]:
            asked.append([peer["id"] for peer in some])
            return []

    made = Mesh()
    try:
        node = await made.add("a", Linear(1.0))
        await made.full()
        await node.rule_changes.check()
        assert asked == []  # nothing depends on it
        changes = node.rule_changes
        changes._infos, changes._peers = Infos(), lambda: peers  # type: ignore[assignment]
        node.core.jobs[MNIST_3_7].rule_change.taken = object()  # type: ignore[assignment]
        for _ in range(4):
            await changes.check()
        assert all(len(some) == ASKED_AT_ONCE for some in asked)
        assert {name for some in asked for name in some} == {
            peer["id"] for peer in peers if peer["state"] == "alive"
        }
        node.core.jobs[MNIST_3_7].rule_change.taken = None
    finally:
        await made.stop()


FROM_HERE = {"Origin": "http://127.0.0.1", "Accept-Language": "en"}


async def test_it_is_done_on_the_page_and_from_a_terminal(mesh: Mesh) -> None:
    ports: dict[str, int] = {}
    async with AsyncExitStack() as stack:
        for name, node in mesh.nodes.items():
            ports[name] = await stack.enter_async_context(served(create_app(node, Settings())))
        http = await stack.enter_async_context(
            httpx.AsyncClient(trust_env=False, follow_redirects=True, timeout=60)
        )

        async def page(name: str, path: str = "/", **form: str) -> str:
            url, here = f"http://127.0.0.1:{ports[name]}{path}", {"Origin": f"http://127.0.0.1:{ports[name]}"}
            head = {**FROM_HERE, **here}
            fields = {"trainerId": MNIST_3_7, **form}
            answer = await (http.post(url, data=fields, headers=head) if form else http.get(url, headers=head))
            return " ".join(html.unescape(answer.text).split())

        async def flnet(name: str, *words: str) -> Result:
            arguments = ("rule", MNIST_3_7, *words, "--node", f"127.0.0.1:{ports[name]}")
            return await asyncio.to_thread(CliRunner().invoke, cli, arguments)

        assert "is no rule: expected agg0" in await page(
            "a", "/training/params/form", do="propose", aggregation="x y"
        )
        proposed = await page("a", "/training/params/form", do="propose", aggregation="median")
        assert "median is proposed to all nodes of MNIST 3 vs 7 Dataset." in proposed
        assert "This node proposes median. Not taken yet by b, c." in proposed
        assert 'value="withdraw"' in proposed
        looked = await page("b")
        if "a proposes median." not in looked:  # the node heard of it while the page was made
            looked = await page("b")
        assert "a proposes median. Not taken yet by b, c." in looked
        mark = re.findall(r'name="mark" value="([0-9a-f]{32})"', looked)[0]
        assert "The rule was declined." in await page("b", "/training/proposals/form", do="decline", mark=mark)
        assert "declined by b" in (await flnet("a")).stdout
        assert "Declined by b." in await page("a")
        taken = await page("b", "/training/proposals/form", do="take", mark=mark)
        assert "a proposes median, and it was taken here." in taken
        assert "expected take, decline or withdraw" in await page(
            "b", "/training/proposals/form", do="x", mark=mark
        )
        assert (await flnet("c", "--take", "b")).exit_code == 1
        assert (await flnet("c", "--take", "b", "--withdraw")).exit_code == 2
        assert "a proposes median: not taken here; waits for c" in (await flnet("c")).stdout
        done = await flnet("c", "--take", "a", "--json")
        assert json.loads(done.stdout)["rule_proposals"][0]["state"] in ("taken", "ready")
        await in_force(mesh, "median")
        assert "From the next round on, the aggregation rule is median" in await page("a")
        assert (await flnet("a")).stdout.splitlines() == [
            "MNIST_3_7: weighted average (agg1)",
            "from the next round on: median",
        ]
        again = await flnet("a", "--propose", "agg0")
        assert "a proposes plain average (agg0): taken here; waits for b, c" in again.stdout
        assert (await flnet("a", "--withdraw")).exit_code == 0
        api = f"http://127.0.0.1:{ports['b']}/jobs/{MNIST_3_7}/proposals"
        assert (await http.get(api)).json() == []
        assert (await http.delete(api)).json()["error"] == "no_proposal"
        refused = await http.post(f"{api}/answer", json={"mark": "x", "takes": True})
        assert refused.status_code == 422


async def test_an_answer_that_is_late_takes_nothing_back() -> None:
    """A peer was asked before it proposed a rule, and its answer of then arrives after the rule was taken here."""
    made = Mesh()
    try:
        for name, others in (("a", ()), ("b", ("a",))):
            await made.add(name, Linear(1.0), others)
        await made.full()
        a, b = made.nodes.values()
        late = await b._peer_infos.ask(b.peers())
        await a.rule_changes.propose(MNIST_3_7, "median")
        await b.rule_changes.answer(MNIST_3_7, await mark_at(b), takes=True)
        await b.rule_changes.heard(late)
        assert b.core.jobs[MNIST_3_7].rule_change.statement is not None
        assert b.core.jobs[MNIST_3_7].rule_change.is_waiting or b.job(MNIST_3_7).next_rule == "median"
        await in_force(made, "median")
    finally:
        await made.stop()
