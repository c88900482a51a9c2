"""Faults and restarts in vertical jobs: every run ends in a whole epoch or a stated reason."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from flnet.errors import BatchRefused, JobBusy, NotAnnounced, ParamsRefused, PeerError, RoundAhead, TooManyMessages
from flnet.node import inbound
from flnet.node.runtime import NodeRuntime
from flnet.params.params import Params, PeerId
from flnet.protocol.effects import Send, SetTimer
from flnet.protocol.events import (
    PeerLost,
    PeerSeen,
    SendRefused,
    TalkSent,
    TimerFired,
    VerticalDelivered,
    VerticalDone,
    VerticalReceived,
)
from flnet.protocol.messages import HyperParams
from flnet.protocol.updates import RoundKey
from flnet.protocol.vertical import AlivePart, BeginPart, ControlPart, OfferPart, VerticalMessage
from flnet.rounds.vertical_round import TICK, VerticalRound
from flnet.security.rate_limits import Buckets
from flnet.store.sqlite_store import DiskStore
from flnet.wire.memory import NetworkFaults
from tests.algorithms.vertical.holders import People
from tests.node.mesh import Mesh, trigger, until
from tests.node.vertical_mesh import FILES, T, job_of, vertical_mesh


def epochs(mesh: Mesh) -> set[int]:
    return {job_of(node).models.closed for node in mesh.nodes.values()}


def is_idle(mesh: Mesh) -> bool:
    return not any(job_of(node).busy for node in mesh.nodes.values())


def outcome(mesh: Mesh, name: str) -> str:
    return str(job_of(mesh.nodes[name]).records()[-1]["outcome"])


async def trained(mesh: Mesh, starter: str, rounds: int) -> None:
    last = max(epochs(mesh)) + rounds
    await trigger(mesh.nodes[starter], rounds)
    await until(lambda: is_idle(mesh) and epochs(mesh) == {last}, 30)


def must_agree(mesh: Mesh) -> None:
    """Holders of labels know the bottom models that the others have."""
    jobs = {name: job_of(node) for name, node in mesh.nodes.items()}
    epoch = {job.models.closed for job in jobs.values()}.pop()
    reports = [job.models.ended[epoch].report for job in jobs.values()]
    bottoms = {name: job.models.ended[epoch].bottom for name, job in jobs.items()}
    assert all(dict(report.bottoms) == bottoms for report in reports if report)
    assert any(reports)


@pytest.mark.parametrize("restarted", ["a", "b", "c"])
async def test_a_restarted_holder_goes_on_from_the_common_epoch(restarted: str, tmp_path: Path) -> None:
    people = People(("a", "b", "c"))
    async with vertical_mesh(people) as mesh:
        stores = {name: DiskStore(tmp_path / name) for name in mesh.nodes}
        for name, node in list(mesh.nodes.items()):
            await node.stop()
            await mesh.add(name, people.hosts()[name], ("a",) if name != "a" else (), stores[name], files=FILES)
        await mesh.full()
        await trained(mesh, "a", 2)
        await mesh.nodes[restarted].stop()
        others = tuple(name for name in mesh.nodes if name != restarted)
        store = DiskStore(tmp_path / restarted)
        again = await mesh.add(restarted, people.hosts()[restarted], others, store, files=FILES)
        await until(lambda: bool(again.ready()["data_loaded"]))
        assert job_of(again).models.closed == 1
        await mesh.full()
        await trained(mesh, restarted, 1)
        assert job_of(again).models.rows is not None
        must_agree(mesh)


async def killed_while_it_asks(mesh: Mesh, folder: Path, rounds: int) -> NodeRuntime:
    """Node a, restarted from what a killed process leaves."""
    people, a = People(), mesh.nodes["a"]
    mesh.network.faults = NetworkFaults(drop_request=1)
    status, _ = await trigger(a, rounds)
    assert status == 202 and job_of(a).busy
    shutil.copytree(folder / "a", folder / "killed")
    await a.stop()
    mesh.network.faults = NetworkFaults()
    again = await mesh.add("a", people.hosts()["a"], ("b",), DiskStore(folder / "killed"), files=FILES)
    await until(lambda: bool(again.ready()["data_loaded"]))
    return again


async def test_epochs_that_were_asked_for_are_trained_after_a_kill_while_holders_are_asked(tmp_path: Path) -> None:
    async with vertical_mesh(People()) as mesh:
        await mesh.nodes["a"].stop()
        await mesh.add("a", People().hosts()["a"], ("b",), DiskStore(tmp_path / "a"), files=FILES)
        await mesh.full()
        await trained(mesh, "a", 1)
        await killed_while_it_asks(mesh, tmp_path, 2)
        await until(lambda: is_idle(mesh) and epochs(mesh) == {2}, 30)
        must_agree(mesh)


async def test_a_first_epoch_whose_holders_nobody_knows_ends_with_a_reason_after_a_kill(tmp_path: Path) -> None:
    """With those who happen to be reachable first, other holders would be left out of the models for good."""
    async with vertical_mesh(People()) as mesh:
        await mesh.nodes["a"].stop()
        await mesh.add("a", People().hosts()["a"], ("b",), DiskStore(tmp_path / "a"), files=FILES)
        await mesh.full()
        again = await killed_while_it_asks(mesh, tmp_path, 2)
        await until(lambda: is_idle(mesh))
        assert outcome(mesh, "a") == "abandoned: a was restarted"
        assert job_of(again).series.left == 0 and epochs(mesh) == {-1}
        await mesh.full()
        await trained(mesh, "a", 2)


async def test_a_holder_that_lost_its_state_is_told_to_all_and_a_new_numbering_begins_afresh() -> None:
    people = People()
    async with vertical_mesh(people) as mesh:
        await trained(mesh, "a", 2)
        await mesh.nodes["a"].stop()
        await mesh.add("a", people.hosts()["a"], ("b",), files=FILES)
        await mesh.full()
        await trigger(mesh.nodes["b"], 3)
        await until(lambda: len(job_of(mesh.nodes["b"]).records()) == 3)
        assert "no common epoch to go on from (a has none; b has 0, 1)" in outcome(mesh, "b")
        await until(lambda: is_idle(mesh))
        assert job_of(mesh.nodes["b"]).series.left == 0
        body = b'{"trainerId": "MNIST_3_7", "newNumbering": true}'
        await mesh.nodes["b"].receive("/training/trigger", body, "application/json", "127.0.0.1")
        await until(lambda: is_idle(mesh) and epochs(mesh) == {0})
        must_agree(mesh)


async def test_a_holder_that_dies_in_an_epoch_ends_it_everywhere_and_the_series_goes_on_when_it_is_back() -> None:
    people = People(("a", "b", "c"))
    async with vertical_mesh(people) as mesh:
        await trained(mesh, "a", 1)
        job = job_of(mesh.nodes["c"])
        await trigger(mesh.nodes["a"], 3)
        await until(lambda: job.round is not None and job.round.begin is not None and job.busy)
        for name in "ab":
            mesh.nodes[name].deliver(T, PeerLost(PeerId("c"), "it does not answer"))
        await until(lambda: "c is not reachable" in outcome(mesh, "a") or max(epochs(mesh)) == 3, 20)
        for name in "ab":
            mesh.nodes[name].deliver(T, PeerSeen(PeerId("c")))
        await until(lambda: is_idle(mesh) and epochs(mesh) == {3}, 30)
        must_agree(mesh)
        reasons = [record["outcome"] for record in job_of(mesh.nodes["a"]).records()]
        assert sum("has ended" in reason for reason in reasons) == 4


async def test_after_an_epoch_that_was_given_up_the_figures_are_those_of_the_last_whole_one() -> None:
    people = People(("a", "b", "c"))
    async with vertical_mesh(people) as mesh:
        await trained(mesh, "a", 2)
        node = mesh.nodes["a"]
        before = node.job(T)
        assert before.post_fedavg_accuracy is not None
        mesh.nodes["a"].deliver(T, PeerLost(PeerId("c"), "it does not answer"))
        await trigger(node, 2)
        await until(lambda: is_idle(mesh) and len(node.history(T)) == 3)
        after = node.job(T)
        assert "it is not reachable" in str(after.error)
        figures = [
            (
                view.figures_round,
                view.pre_fedavg_accuracy,
                view.post_fedavg_accuracy,
                view.metrics,
                view.vertical.loss,
            )
            for view in (before, after)
            if view.vertical
        ]
        assert figures[0] == figures[1]
        node.deliver(T, PeerSeen(PeerId("c")))
        await trained(mesh, "a", 1)
        assert node.job(T).pre_fedavg_accuracy == before.post_fedavg_accuracy


async def test_an_epoch_that_is_to_be_tried_again_waits_for_the_holder_that_is_away() -> None:
    people = People(("a", "b", "c"))
    async with vertical_mesh(people) as mesh:
        await trained(mesh, "a", 1)
        node, job = mesh.nodes["a"], job_of(mesh.nodes["a"])
        await trigger(node, 40)
        await until(lambda: job.round is not None and job.round.begin is not None and job.busy)
        node.deliver(T, PeerLost(PeerId("c"), "it does not answer"))
        await until(lambda: not job.busy)
        view = node.job(T)
        assert (view.waiting_for, view.rounds_left > 0) == (["c"], True)
        await node.steer(T, "stop")
        assert node.job(T).waiting_for == []


async def test_a_trainer_that_fails_ends_the_epoch_with_its_reason_on_all_holders() -> None:
    people = People(("a", "b", "c"))
    async with vertical_mesh(people) as mesh:
        await trained(mesh, "a", 1)
        people.tables["c"].fails = True
        await trigger(mesh.nodes["a"], 5)
        await until(lambda: is_idle(mesh) and all("asked to fail" in outcome(mesh, name) for name in mesh.nodes))
        assert job_of(mesh.nodes["a"]).series.left == 0
        assert epochs(mesh) == {0}
        people.tables["c"].fails = False
        await trained(mesh, "b", 2)
        must_agree(mesh)


async def test_a_pause_ends_the_epoch_and_holders_that_are_paused_say_so() -> None:
    people = People()
    async with vertical_mesh(people) as mesh:
        await trained(mesh, "a", 1)
        await mesh.nodes["b"].steer(T, "pause")
        await trigger(mesh.nodes["a"])
        await until(lambda: is_idle(mesh) and len(job_of(mesh.nodes["a"]).records()) == 2)
        assert "b holds columns of this job and is needed" in outcome(mesh, "a")
        assert "paused by a person" in outcome(mesh, "a")
        await mesh.nodes["b"].steer(T, "resume")
        await trained(mesh, "a", 1)


@pytest.mark.parametrize(
    ("labels", "words"), [((), "no holder has the label"), (("a", "b"), "a, b all hold a label, but")]
)
async def test_holders_that_cannot_train_together_are_refused_before_any_training(
    labels: tuple[str, ...], words: str
) -> None:
    people = People(("a", "b"), labels)
    async with vertical_mesh(people) as mesh:
        await trigger(mesh.nodes["a"], 2)
        await until(lambda: is_idle(mesh) and bool(job_of(mesh.nodes["a"]).records()))
        assert words in outcome(mesh, "a")
        await until(lambda: all(words in str(node.job(T).error) for node in mesh.nodes.values()))
        assert epochs(mesh) == {-1}


async def test_a_node_alone_says_what_is_missing() -> None:
    people = People()
    del people.tables["b"]
    async with vertical_mesh(people) as mesh:
        await trigger(mesh.nodes["a"])
        await until(lambda: bool(job_of(mesh.nodes["a"]).records()))
        assert "two or more holders" in outcome(mesh, "a")


async def test_no_common_person_ends_in_words_at_both() -> None:
    people = People()
    people.tables["a"].ids = [f"other {number}" for number in range(len(people.tables["a"].ids))]
    async with vertical_mesh(people) as mesh:
        await trigger(mesh.nodes["a"])
        await until(lambda: all(job_of(node).records() for node in mesh.nodes.values()))
        assert all("have no id in common" in outcome(mesh, name) for name in "ab")
        assert all("have no id in common" in str(node.job(T).error) for node in mesh.nodes.values())


async def test_two_nodes_that_begin_at_once_train_one_epoch_after_the_other() -> None:
    people = People(("a", "b", "c"))
    async with vertical_mesh(people) as mesh:
        await trained(mesh, "a", 1)
        await asyncio.gather(trigger(mesh.nodes["c"], 2), trigger(mesh.nodes["b"], 2), trigger(mesh.nodes["a"], 1))
        await until(lambda: is_idle(mesh) and len(epochs(mesh)) == 1 and max(epochs(mesh)) >= 1, 30)
        must_agree(mesh)


async def test_several_label_holders_average_their_top_models() -> None:
    people = People(("a", "b", "c"), labels=("a", "b"))
    for table in people.tables.values():
        table.several_labels = True
    async with vertical_mesh(people) as mesh:
        await trained(mesh, "c", 3)
        must_agree(mesh)
        tops = {job_of(mesh.nodes[name]).models.ended[2].report.top for name in "ab"}  # type: ignore[union-attr]
        assert len(tops) == 1


async def test_requests_that_are_lost_are_repeated_and_nothing_is_trained_twice() -> None:
    people = People(("a", "b", "c"))
    async with vertical_mesh(people) as mesh:
        await trained(mesh, "b", 1)
        mesh.network.faults = NetworkFaults(drop_request=0.03, drop_reply=0.03, duplicate=0.1, longest_delay=0.003)
        await trigger(mesh.nodes["b"])
        await until(lambda: is_idle(mesh) and len(job_of(mesh.nodes["b"]).records()) >= 2)
        mesh.network.faults = NetworkFaults()
        await until(lambda: all(len(node.core.members.alive) == 2 for node in mesh.nodes.values()))
        await trained(mesh, "b", 1)
        must_agree(mesh)


@pytest.mark.parametrize(
    ("number", "changed", "error"),
    [
        (2**53 - 9, {}, RoundAhead),
        (1003, {}, RoundAhead),
        (3, {"e": 10_000}, ParamsRefused),
        (3, {"u": 1000}, ParamsRefused),
    ],
)
async def test_an_offer_of_a_round_or_hyper_parameters_beyond_all_bounds_is_refused(
    number: int, changed: dict[str, float], error: type[Exception]
) -> None:
    """A holder's word about its round or its training counts as little here as in other jobs."""
    async with vertical_mesh(People()) as mesh:
        await trained(mesh, "a", 2)
        job = job_of(mesh.nodes["b"])
        assert (job.number, job.settings.hyper is None) == (1, False)
        hyper = HyperParams(**{**job.settings.hyper.fields(), **changed})  # type: ignore[union-attr]
        offer = VerticalReceived(
            PeerId("a"), RoundKey(number, PeerId("a")), "s", 0, (OfferPart(),), Params(), hyper
        )
        with pytest.raises(error):
            job.receive(offer)
        assert (job.number, job.busy) == (1, False)


async def test_a_job_that_is_faster_than_the_rate_limit_is_slowed_down_and_ends_as_without_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused: list[str] = []
    take = Buckets.take

    def counted(buckets: Buckets, caller: str) -> float:
        seconds = take(buckets, caller)
        refused.extend([caller] if seconds else [])
        return seconds

    monkeypatch.setattr(inbound, "VERTICAL_BURST", 5.0)
    monkeypatch.setattr(inbound, "VERTICAL_PER_SECOND", 10.0)
    monkeypatch.setattr(Buckets, "take", counted)
    people = People(("a", "b", "c"))
    async with vertical_mesh(people) as mesh:
        await trained(mesh, "a", 2)
        assert len(refused) > 5
        assert [record["outcome"] for record in job_of(mesh.nodes["b"]).records()] == [
            f"epoch {epoch} of the models has ended" for epoch in range(2)
        ]
        must_agree(mesh)


async def test_a_stranger_that_sends_fast_is_slowed_down_and_holders_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A node that is no member has no part at all; one that names itself like a holder is counted by its address."""
    monkeypatch.setattr(inbound, "VERTICAL_BURST", 100.0)
    monkeypatch.setattr(inbound, "VERTICAL_PER_SECOND", 0.001)
    people = People(("a", "b", "c"))
    async with vertical_mesh(people) as mesh:

        async def refusal(name: str) -> type[Exception]:
            fields = {
                "iAm": {"id": name, "ip": "10.6.6.6", "port": "4000"},
                "trainerId": T,
                "round": 0,
                "federatedLearningParams": {"e": 1, "u": 0.05, "b": 16},
                **{"session": "s", "number": 1, "parts": [{"kind": "alive"}]},
                "modelParams": {"0/values": [[1.0]]},
            }
            with pytest.raises(PeerError) as caught:
                await mesh.nodes["a"].receive(
                    VerticalMessage.path, orjson.dumps(fields), "application/json", "10.6.6.6"
                )
            return type(caught.value)

        assert {await refusal("mallory") for _ in range(110)} == {NotAnnounced}
        assert [await refusal("b") for _ in range(110)] == [BatchRefused] * 100 + [TooManyMessages] * 10
        await trained(mesh, "c", 1)
        assert [record["outcome"] for record in job_of(mesh.nodes["a"]).records()] == [
            "epoch 0 of the models has ended"
        ]


async def test_a_holder_that_is_lost_while_it_is_asked_ends_no_series() -> None:
    """Another holder may notice first that it is gone; then the initiator begins again before it knows so itself."""
    people = People(("a", "b", "c"))
    async with vertical_mesh(people) as mesh:
        await trained(mesh, "a", 1)
        a, c = (mesh.nodes[name].me.address for name in "ac")
        mesh.network.cut(a, c)
        await trigger(mesh.nodes["a"], 2)
        await until(lambda: job_of(mesh.nodes["a"]).busy)
        mesh.nodes["a"].deliver(T, PeerLost(PeerId("c"), "others say so"))
        await until(
            lambda: outcome(mesh, "a").endswith("c holds columns of this job and is needed: others say so")
        )
        mesh.network.heal(a, c)
        mesh.nodes["a"].deliver(T, PeerSeen(PeerId("c")))
        await until(lambda: is_idle(mesh) and epochs(mesh) == {2})
        must_agree(mesh)


def offer(session: str, number: int = 2) -> VerticalReceived:
    hyper = HyperParams(e=1, u=0.05, b=16)
    return VerticalReceived(
        PeerId("a"), RoundKey(number, PeerId("a")), session, 0, (OfferPart(),), Params(), hyper
    )


async def test_an_initiator_that_was_restarted_before_its_plan_arrived_begins_again_at_once() -> None:
    """Its holders do not wait until the plan of the session before is overdue."""
    async with vertical_mesh(People(("a", "b", "c"))) as mesh:
        await trained(mesh, "a", 2)
        job = job_of(mesh.nodes["b"])
        job.receive(offer("run1.7"))
        assert job.round is not None and job.round.session == "run1.7" and job.busy
        for session in ("run1.8", "run2.1"):  # it gave the first one up; it was restarted
            job.receive(offer(session))
            assert job.round.session == session
        with pytest.raises(JobBusy):
            job.receive(offer("run2.0"))  # late
        assert job.receive(offer("run2.1"))  # repeated, with an answer again
        assert job.round.session == "run2.1"


async def test_a_plan_cannot_name_a_round_that_nobody_can_have_reached() -> None:
    async with vertical_mesh(People()) as mesh:
        await trained(mesh, "a", 2)
        job = job_of(mesh.nodes["b"])
        job.receive(offer("run1.7"))
        assert isinstance(job.round, VerticalRound)
        mine = job.round._position()
        begin = BeginPart(
            holders={"a": mine.model_copy(update={"has_label": False}), "b": mine}, closed=1, aligns=False, seed=1
        )
        plan = replace(offer("run1.7", 2**53 - 9), number=1, parts=(begin,))
        with pytest.raises(RoundAhead, match="has reached round 1 only"):
            job.receive(plan)
        assert job.number == 2


async def test_a_holder_cannot_drive_the_number_of_an_epoch_up() -> None:
    async with vertical_mesh(People()) as mesh:
        await trained(mesh, "a", 2)
        job = job_of(mesh.nodes["a"])
        mesh.network.faults = NetworkFaults(drop_request=1)
        job._begin()
        assert isinstance(job.round, VerticalRound)
        stated = job.round._position().model_copy(update={"number": 2**53 - 9})
        answer = VerticalReceived(
            PeerId("b"), job.round.key, job.round.session, 0, (stated,), Params(), HyperParams(e=1, u=0.05, b=16)
        )
        job.receive(answer)
        assert job.number == 2 and not job.busy
        reason = "b holds columns of this job and is needed: the message is for round 9007199254740983"
        assert reason in outcome(mesh, "a")
        mesh.network.faults = NetworkFaults()


async def test_a_holder_that_begins_another_epoch_is_asked_whether_it_left_the_open_one() -> None:
    """It was restarted, and knows nothing of that epoch; nobody waits until it has been silent for long."""
    async with vertical_mesh(People()) as mesh:
        await trained(mesh, "a", 2)
        job = job_of(mesh.nodes["b"])
        job.receive(offer("run1.7"))
        assert isinstance(job.round, VerticalRound)
        mine = job.round._position()
        holders = {"a": mine.model_copy(update={"has_label": False}), "b": mine}
        begin = BeginPart(holders=holders, closed=1, aligns=False, seed=1)
        first = offer("run1.7")
        job.receive(replace(first, number=1, parts=(begin,)))
        job.receive(VerticalDelivered(PeerId("a"), "run1.7"))  # what b holds
        (asked,) = (effect for effect in job.receive(offer("run2.1")) if isinstance(effect, Send))
        assert isinstance(asked.message, VerticalMessage)
        assert (asked.message.session, asked.message.parts) == ("run1.7", (AlivePart(),))
        assert job.round.session == "run1.7"
        key = RoundKey(asked.message.round, PeerId("a"))
        job.receive(
            SendRefused(
                PeerId("a"), VerticalMessage.path, key, 409, "batch_refused", "not in it", session="run1.7"
            )
        )
        assert job.round.session == "run2.1"
        assert "a does not go on" in outcome(mesh, "b")


async def test_holders_that_wait_for_a_plan_find_out_that_its_initiator_was_restarted() -> None:
    """It knows nothing of the epoch that it asked for, and so refuses a message of it."""
    async with vertical_mesh(People(("a", "b", "c"))) as mesh:
        await trained(mesh, "a", 1)
        job, session = job_of(mesh.nodes["b"]), "run1.1"
        job.receive(offer(session, 1))
        assert not any(isinstance(effect, Send) for effect in job.receive(TimerFired(TICK)))  # one is under way
        job.receive(VerticalDelivered(PeerId("a"), session))
        effects = job.receive(TimerFired(TICK))
        asked, again = (next(e for e in effects if isinstance(e, kind)) for kind in (Send, SetTimer))
        assert isinstance(asked, Send) and isinstance(asked.message, VerticalMessage)
        assert (asked.to, asked.message.parts) == (("a",), (AlivePart(),))
        assert isinstance(again, SetTimer)
        assert again.name == TICK and job.busy
        key = RoundKey(1, PeerId("a"))
        job.receive(
            SendRefused(PeerId("a"), VerticalMessage.path, key, 409, "batch_refused", "no", session=session)
        )
        assert not job.busy
        await trained(mesh, "c", 1)


async def test_an_initiator_that_still_asks_others_answers_a_holder_that_waits() -> None:
    people = People(("a", "b", "c"))
    async with vertical_mesh(people) as mesh:
        await trained(mesh, "a", 1)
        job = job_of(mesh.nodes["a"])
        job._begin()
        assert isinstance(job.round, VerticalRound)
        session, hyper = job.round.session, HyperParams(e=1, u=0.05, b=16)
        mine = job.round._position().model_copy(update={"width": 3})
        said: tuple[ControlPart, ...] = (mine, AlivePart())
        for number, part in enumerate(said):
            job.receive(VerticalReceived(PeerId("b"), job.round.key, session, number, (part,), Params(), hyper))
        assert (job.round.begin, job.round.waiting_for) == (None, ["c"])


async def test_a_holder_that_did_not_hear_the_end_of_an_epoch_is_told_when_it_says_something() -> None:
    """It was cut off while the epoch ended elsewhere; that its messages arrive again must not let it wait for ever."""
    async with vertical_mesh(People()) as mesh:
        await trained(mesh, "a", 2)
        job, before = job_of(mesh.nodes["b"]), job_of(mesh.nodes["b"]).models.ended[1]
        job.receive(offer("run1.7"))
        assert isinstance(job.round, VerticalRound)
        mine = job.round._position()
        holders = {"a": mine.model_copy(update={"has_label": False}), "b": mine}
        begin = BeginPart(holders=holders, closed=1, aligns=False, seed=1)
        job.receive(replace(offer("run1.7"), number=1, parts=(begin,)))
        job.receive(VerticalDelivered(PeerId("a"), "run1.7"))
        assert before.report is not None
        report = before.report.model_copy(update={"epoch": 2})
        told = (TalkSent(PeerId("a"), report, Params()),)
        job.receive(VerticalDone("run1.7", told, "closed", own_report=report, report=report, params=before.params))
        alive = replace(offer("run1.7"), number=2, parts=(AlivePart(),))
        job.receive(PeerLost(PeerId("a"), "cut off"))
        assert (job.busy, job.models.closed) == (False, 2)
        with pytest.raises(BatchRefused, match="not in this epoch"):
            job.receive(alive)


async def test_a_holder_that_heard_of_the_end_of_an_epoch_may_say_more_in_it() -> None:
    """It still waits for another label holder, or its message was repeated."""
    async with vertical_mesh(People()) as mesh:
        await trained(mesh, "a", 1)
        job = job_of(mesh.nodes["b"])
        assert job.round is not None
        job.receive(replace(offer(job.round.session), number=99, parts=(AlivePart(),)))
