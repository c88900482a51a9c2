"""The page of a past round: what each node did, step by step, and what each peer brings by round."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quart import Response, request

from flnet.errors import InvalidMessage
from flnet.node.interface import Node, View
from flnet.node.replay import STATES, NodeState, Replay
from flnet.params.params import TrainerId
from flnet.text import text
from flnet.web.api.history import replay_of, round_number
from flnet.web.auth.permissions import may_act
from flnet.web.charts import Chart, ChartSeries, accuracy_chart
from flnet.web.formatting import accuracy, one_line, seconds_words
from flnet.web.page.frame import choices, redirect_to_first, show, view_url
from flnet.web.page.weights import weights_view
from flnet.web.routes import Pages
from flnet.web.translation import Translate, request_language, request_translator, translate_sentence

pages = Pages()
MOST_STEPS = 400  # shown; the JSON has all
MOST_NODES = 100  # with a row
MOST_PEERS = 6  # lines of the chart, next to that of all nodes
CHIPS = {
    **dict.fromkeys(("counted", "adopted", "took"), "calm"),
    **dict.fromkeys(("trains", "sent", "arrived"), "busy"),
    **dict.fromkeys(("awaited", "declined", "sits_out"), "warn"),
    **dict.fromkeys(("refused", "failed", "left_out", "lost"), "bad"),
}


@dataclass(frozen=True)
class NodeRow:
    """What one node did up to the step that is shown."""

    name: str
    state: str
    words: str
    why: str
    chip: str


@dataclass(frozen=True)
class StepRow:
    """One step; `changes` are the new states of nodes as JSON, for the script."""

    number: int
    seconds: str
    node: str
    text: str
    changes: str
    url: str


@dataclass(frozen=True)
class RoundShown:
    """A round step by step.

    Attributes:
        step: after which the nodes are shown, from 0; None for the whole round.
        hidden_steps, hidden_nodes: how many are not shown.
        earlier, later: numbers of the rounds before and after it; empty if there are none.
    """

    number: int
    initiator: str
    outcome: str
    error: str
    before: str
    after: str
    steps: tuple[StepRow, ...]
    nodes: tuple[NodeRow, ...]
    step: int | None
    missing: tuple[str, ...]
    hidden_steps: int
    hidden_nodes: int
    earlier: str
    later: str


@pages.get("/view/rounds")
async def first(node: Node) -> Any:
    """The rounds of the first trainer."""
    return await redirect_to_first(node, "rounds")


@pages.get("/view/rounds/<trainer>")
async def rounds(node: Node, trainer: TrainerId) -> Response:
    """A past round step by step: the newest, or the one of ?round=; up to ?step= if that is there."""
    job, t = node.job(trainer), request_translator()
    history = node.history(trainer)
    asked = request.args.get("round")
    number = round_number(asked.strip()) if asked else int(history[-1]["round"]) if history else None
    shown = None
    if number is not None:
        replay = await replay_of(node, trainer, number)
        neighbours = await _neighbours(node, trainer, number, history)
        shown = round_shown(
            replay, view_url("rounds", trainer), _step(request.args.get("step"), replay), neighbours
        )
    return await show(
        "rounds.html",
        job=job,
        url=view_url("rounds", trainer),
        shown=shown,
        states=json.dumps({state: words_of(state) for state in STATES}),
        chips=json.dumps(CHIPS),
        weights=None if job.vertical else weights_view(node.me.id, job.label, history, job.counts_little, t),
        contributions=contributions_chart(node.leave_one_out.view(trainer), t) if may_act() else None,
        choices=choices(node, "rounds", trainer),
    )


async def _neighbours(node: Node, trainer: TrainerId, number: int, history: Sequence[View]) -> tuple[str, str]:
    """The rounds before and after one, as far as they are kept."""
    before = await node.records(trainer, 1, until=number - 1) if number else ()
    following = await node.records(trainer, 1, until=number + 1)
    later = [int(record["round"]) for record in (*following, *history) if record["round"] > number]
    return str(before[-1]["round"]) if before else "", str(min(later)) if later else ""


def _step(asked: str | None, replay: Replay) -> int | None:
    if not asked:
        return None
    if not (asked.isascii() and asked.isdigit() and len(asked) < 9 and 0 < int(asked) <= len(replay.steps)):
        most = len(replay.steps)
        raise InvalidMessage(
            text("step: expected a whole number from 1 to {most}, got {value}", most, repr(asked[:60]))
        )
    return int(asked)


def words_of(state: str) -> str:
    """A state in the reader's language."""
    return translate_sentence(request_language(), STATES[state]).text


def round_shown(replay: Replay, url: str, step: int | None, neighbours: tuple[str, str]) -> RoundShown:
    """The round as it stands after a step, or as a whole."""
    record: Mapping[str, Any] = replay.record or {}
    states = replay.states(step)
    steps = [
        StepRow(
            place,
            f"+{one.seconds:.2f} s" if one.seconds < 60 else f"+{seconds_words(one.seconds)}",
            one_line(one.node, 64),
            one_line(one.text, 500),
            _changes(one.changes),
            f"{url}?round={replay.round}&step={place}#nodes",
        )
        for place, one in enumerate(replay.steps[:MOST_STEPS], start=1)
    ]
    return RoundShown(
        number=replay.round,
        initiator=one_line(record.get("initiator"), 64),
        outcome=one_line(record.get("outcome"), 500),
        error=one_line(record.get("error"), 500),
        before=accuracy(record.get("pre_fedavg_accuracy")),
        after=accuracy(record.get("post_fedavg_accuracy")),
        steps=tuple(steps),
        nodes=tuple(_row(node, states[node]) for node in replay.nodes[:MOST_NODES]),
        step=step,
        missing=tuple(replay.missing),
        hidden_steps=max(0, len(replay.steps) - MOST_STEPS),
        hidden_nodes=max(0, len(replay.nodes) - MOST_NODES),
        earlier=neighbours[0],
        later=neighbours[1],
    )


def _row(node: str, state: NodeState) -> NodeRow:
    words = words_of(state.state)
    return NodeRow(one_line(node, 64), state.state, words, one_line(state.why, 300), CHIPS[state.state])


def _changes(changes: Mapping[str, NodeState]) -> str:
    language = request_language()
    told = {
        one_line(node, 64): [state.state, translate_sentence(language, one_line(state.why, 300)).text]
        for node, state in list(changes.items())[:MOST_NODES]
    }
    return json.dumps(told)


def contributions_chart(measured: View, t: Translate) -> Chart | None:
    """Accuracy here of the average with all updates, and without each peer in turn; None where it is not measured.

    Args:
        measured: as `flnet.node.interface.LeaveOneOutResults.view` has it.
    """
    rounds: Sequence[Mapping[str, Any]] = measured["rounds"] if measured.get("on") else ()
    peers = sorted({peer for one in rounds for peer in one["without"]})
    gains = {
        peer: sum(one["accuracy"] - one["without"][peer] for one in rounds if peer in one["without"])
        for peer in peers
    }
    shown = sorted(peers, key=lambda peer: (-abs(gains[peer]), peer))[:MOST_PEERS]
    lines = [ChartSeries(t("with all"), tuple((one["round"], one["accuracy"]) for one in rounds))]
    lines += [
        ChartSeries(
            t("without {peer}", peer=one_line(peer, 64)),
            tuple((one["round"], one["without"][peer]) for one in rounds if peer in one["without"]),
        )
        for peer in sorted(shown)
    ]
    return accuracy_chart(lines) if rounds else None
