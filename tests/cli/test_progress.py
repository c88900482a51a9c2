from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from flnet.cli.client import NodeClient
from flnet.cli.progress import (
    Follower,
    LiveProgress,
    PlainProgress,
    RoundFailed,
    RoundResult,
    Spread,
    Views,
    failure,
    fingerprint,
    metrics_tables,
    no_average,
    open_progress,
    progress_line,
    progress_table,
    results_table,
    round_result,
    summary,
)
from flnet.errors import PeerUnreachable, StartError
from flnet.protocol.events import RoundTriggered
from tests.cli.fake_node import FakeNode, job, measured, record, running_fake_node
from tests.rounds.helpers import Bench, asked

TRAINING = job(phase="TRAINING", current_round=1, progress={"done": 30, "total": 120})
GATHERING = job(phase="GATHERING", current_round=1, received=["a", "b"], waiting_for=["c"])


def plain(views: dict[str, dict[str, object]]) -> str:
    out = StringIO()
    Console(file=out, width=160).print(progress_table(views))
    return out.getvalue()


def test_the_table_shows_batches_and_updates_received() -> None:
    shown = plain({"node-a": TRAINING, "node-b": GATHERING})
    assert "####............ 30/120" in shown
    assert "2 of 3" in shown


def test_old_figures_do_not_stand_beside_a_new_round() -> None:
    old = {"node-a": TRAINING | {"figures_round": 0, "post_fedavg_accuracy": 0.5}}
    assert "0.5000" not in plain(old)
    assert "0.5000" in plain({"node-a": old["node-a"] | {"figures_round": 1}})


def test_while_models_are_compared_no_further_updates_are_expected() -> None:
    assert "4 of 4" in plain({"a": job(phase="EXCHANGING", received=["a", "b", "c", "d"], waiting_for=["b", "c"])})


def test_more_batches_than_announced_do_not_break_the_bar() -> None:
    assert "#" * 16 + " 9/8" in plain({"a": job(progress={"done": 9, "total": 8})})
    assert "#" not in plain({"a": job(progress={"done": 0, "total": 0})})


def test_the_line_says_the_same_in_words() -> None:
    line = progress_line({"node-a": TRAINING, "node-b": GATHERING, "node-c": job()})
    assert line == "node-a training 30/120 | node-b gathering, 2 of 3 received | node-c idle"


def test_many_nodes_are_counted_by_phase_in_one_short_line() -> None:
    views = {f"node-{number}": TRAINING for number in range(12)} | {f"late-{n}": GATHERING for n in range(27)}
    line = progress_line(views | {"last": job()})
    assert line == "40 nodes: 27 gathering, 1 idle, 12 training 360/1440"
    assert len(progress_line({f"node-{n}": GATHERING for n in range(6)}).split(" | ")) == 6


def test_plain_lines_are_rare_and_bring_news() -> None:
    out, now = StringIO(), [0.0]
    progress = PlainProgress(Console(file=out, width=40), clock=lambda: now[0])
    progress.show({"a": job()})  # too early
    now[0] = 6
    progress.show({"a": job()})
    now[0] = 12
    progress.show({"a": job()})  # nothing new
    progress.show({"a": TRAINING})
    now[0] = 13
    progress.show({"a": GATHERING})  # too soon after the last one
    progress.say("a line that is much longer than forty columns stays in one piece")
    assert out.getvalue().splitlines() == [
        "  a idle",
        "  a training 30/120",
        "a line that is much longer than forty columns stays in one piece",
    ]


def test_the_display_follows_the_kind_of_output() -> None:
    with open_progress(Console(file=StringIO())) as progress:
        assert isinstance(progress, PlainProgress)
    screen = StringIO()
    console = Console(file=screen, force_terminal=True, highlight=False, _environ={"TERM": "xterm"})
    with open_progress(console) as progress:
        assert isinstance(progress, LiveProgress)
        progress.show({"node-a": TRAINING})
        progress.say("round 0 is over")
    assert "round 0 is over" in screen.getvalue()


def test_the_fingerprint_changes_with_what_moves() -> None:
    assert fingerprint({"a": job()}) == fingerprint({"a": job()})
    assert fingerprint({"a": job()}) != fingerprint({"a": TRAINING})
    further = TRAINING | {"progress": {"done": 31, "total": 120}}
    assert fingerprint({"a": TRAINING}) != fingerprint({"a": further})


# follow


class Quiet:
    """Remembers the phases it was shown."""

    def __init__(self) -> None:
        self.phases: list[str] = []

    def show(self, views: Views) -> None:
        self.phases += [view["phase"] for view in views.values()]

    def say(self, words: str) -> None:
        pass


@pytest.fixture
def second_node() -> Iterator[FakeNode]:
    with running_fake_node() as node:
        yield node


def follower(*nodes: FakeNode, **options: Any) -> Follower:
    clients = {chr(ord("a") + i): NodeClient(node.address) for i, node in enumerate(nodes)}
    return Follower(clients, "MNIST", options.pop("progress", Quiet()), **options)


def test_rounds_come_one_by_one(fake_node: FakeNode) -> None:
    quiet = Quiet()
    fake_node.views = [
        job(phase="TRAINING", current_round=0, rounds_left=1),
        job(phase="AVERAGING", current_round=1, rounds_left=0),
        job(current_round=1),
    ]
    fake_node.records = [record(0, "d0"), record(1, "d1")]
    results = list(follower(fake_node, progress=quiet).rounds(0, 2))
    assert [(result.number, result.digests["a"]) for result in results] == [(0, "d0"), (1, "d1")]
    assert quiet.phases == ["TRAINING", "AVERAGING", "IDLE"]


def test_a_round_that_the_node_left_for_a_later_one_does_not_count(fake_node: FakeNode) -> None:
    bench = Bench("a", ["b"])
    bench.hear(RoundTriggered())
    bench.hear(asked("b", 1))
    [left] = bench.job.records()
    fake_node.views = [
        job(phase="TRAINING", current_round=0, rounds_left=1),
        job(phase="GATHERING", current_round=1, rounds_left=1),
        job(phase="TRAINING", current_round=2),
        job(current_round=2),
    ]
    fake_node.records = [{**left}, record(1, "d1"), record(2, "d2")]
    results = list(follower(fake_node).rounds(0, 2))
    assert [(result.number, result.digests["a"]) for result in results] == [(1, "d1"), (2, "d2")]


def test_a_series_with_a_goal_goes_on_from_the_round_of_the_mesh(fake_node: FakeNode) -> None:
    fake_node.views = [
        job(phase="TRAINING", current_round=4, goal={"state": "open"}),
        job(current_round=4, goal={"state": "reached"}),
    ]
    fake_node.records = [record(0) | {"outcome": "cut short: b started round 4"}, record(4)]
    assert [result.number for result in follower(fake_node).rounds_of_goal(0)] == [4]


def test_the_other_nodes_are_waited_for_in_the_round_of_the_node_that_was_asked(
    fake_node: FakeNode, second_node: FakeNode
) -> None:
    fake_node.views = [job(phase="TRAINING", current_round=0), job(current_round=1)]
    fake_node.records = [record(0) | {"outcome": "cut short: b started round 1"}, record(1, "d1")]
    second_node.views, second_node.records = [job(current_round=1)], [record(0, "d0"), record(1, "d1")]
    [result] = follower(fake_node, second_node).rounds(0, 1)
    assert (result.number, result.digests) == (1, {"a": "d1", "b": "d1"})


def test_a_round_is_over_when_every_node_has_its_result(fake_node: FakeNode, second_node: FakeNode) -> None:
    fake_node.views, fake_node.records = [job(current_round=0)], [record(0)]
    second_node.views = [job(phase="MEASURING", current_round=0), job(current_round=0)]
    second_node.records = [record(0)]
    [result] = follower(fake_node, second_node).rounds(0, 1)
    assert result.same_model
    assert set(result.digests) == {"a", "b"}


def test_all_at_rest_without_a_result_is_a_failure(fake_node: FakeNode, second_node: FakeNode) -> None:
    fake_node.views, fake_node.records = [job(current_round=0)], [record(0)]
    second_node.views = [job(outcome="took no part: busy\x1b")]
    with pytest.raises(RoundFailed, match=r"without a result on b \(took no part: busy\\x1b\)"):
        list(follower(fake_node, second_node).rounds(0, 1))


def test_a_round_that_does_not_move_is_a_failure(fake_node: FakeNode) -> None:
    fake_node.views = [job(phase="GATHERING", current_round=0, waiting_for=["node-b"])]
    with pytest.raises(RoundFailed, match=r"round 0 has not moved for 0.05 s: a gathering, 0 of 1 received"):
        list(follower(fake_node, patience=0.05).rounds(0, 1))


def test_the_check_ends_the_waiting(fake_node: FakeNode) -> None:
    def check() -> None:
        raise StartError("node-b has ended")

    with pytest.raises(StartError):
        list(follower(fake_node, check=check).rounds(0, 1))


def test_a_node_that_is_gone_is_an_error_unless_borne_with(nobody: str) -> None:
    gone = FakeNode(nobody)
    with pytest.raises(PeerUnreachable):
        list(follower(gone).rounds(0, 1))
    with pytest.raises(RoundFailed, match="has not moved"):
        list(follower(gone, tolerant=True, patience=0.05).rounds(0, 1))


# results


def test_spread_of_what_is_there() -> None:
    assert Spread.of([0.5, None, 1.0]) == Spread(0.75, 0.5, 1.0)
    assert Spread.of([None]) is None
    assert str(Spread(0.75, 0.5, 1.0)) == "0.7500 (0.5000 - 1.0000)"
    assert str(Spread(0.75, 0.75, 0.75)) == "0.7500"


@pytest.mark.parametrize(
    ("records", "models"),
    [
        ({"a": record(3, "0123456789abcdef"), "b": record(3, "0123456789abcdef")}, "0123456789 on all 2 nodes"),
        ({"a": record(3, "aaaa"), "b": record(3, "bbbb")}, "DIFFERENT: a aaaa, b bbbb"),
        ({"a": {"round": 3, "digest": None}}, "DIFFERENT: a -"),
        (
            {"a": record(3, "aaaa") | {"spread": 0.25}, "b": record(3, "bbbb") | {"spread": 0.75}},
            "one of each node, distance of neighbours 50.00%",
        ),
        ({"a": record(3), "b": None}, "no result: b"),
        ({"a": record(3), "b": record(3) | {"error": "no memory\x1b"}}, r"FAILED: b no memory\x1b"),
    ],
)
def test_the_models_of_a_round_are_one_or_told_apart(records: dict[str, Any], models: str) -> None:
    result = round_result(
        3, {node: of and of | {"seconds": {"train": 1.0, "exchange": 0.2}} for node, of in records.items()}
    )
    assert result.models() == models
    assert result.same_model is (" on all " in models or "FAILED" in models)
    assert failure([result]) == ("round 3 " + models.replace("FAILED", "failed") if "FAILED" in models else None)
    assert (
        " on all " not in models or str(result) == f"round 3: before 0.5000, after 0.7500, model {models}, 1.2 s"
    )


def test_a_round_of_many_nodes_names_a_few_of_those_that_differ() -> None:
    differing = round_result(3, {f"node-{n}": record(3, f"digest-{n}") for n in range(40)})
    assert differing.models().startswith("DIFFERENT: node-0 digest-0, node-1 digest-1, ")
    assert differing.models().endswith(" and 34 more")
    silent = round_result(3, {f"node-{n}": None for n in range(40)})
    assert silent.models() == "no result: node-0, node-1, node-2, node-3, node-4, node-5 and 34 more"


def test_the_seconds_of_a_round_are_those_of_its_slowest_node_and_not_of_the_looks_at_it() -> None:
    quick = record(0) | {"seconds": {"train": 0.5, "average": 0.25}}
    slow = record(0) | {"seconds": {"fetch": 0.25, "train": 1.0, "wait": 0.5}}
    assert round_result(0, {"a": quick, "b": slow, "c": None}).seconds == 1.75
    assert round_result(0, {"a": record(0)}).seconds is None
    assert str(round_result(0, {"a": record(0)})).endswith(", time unknown")


def heading(result: RoundResult) -> str:
    out = StringIO()
    Console(file=out, width=160).print(results_table([result]))
    return next(line for line in out.getvalue().splitlines() if "before" in line)


def test_only_several_nodes_have_a_mean() -> None:
    assert "mean of nodes (low - high)" in heading(round_result(0, {"a": record(0), "b": record(0)}))
    assert heading(round_result(0, {"a": record(0)})).split() == [
        "round",
        "before",
        "averaging",
        "after",
        "updates",
        "model",
        "seconds",
    ]


def test_a_round_says_how_many_updates_it_averaged_of_how_many() -> None:
    three = record(0) | {"contributors": ["a", "b", "c"]}
    asked = three | {"left_out": {"d": "no answer in time"}}
    assert [round_result(0, {"a": one}).update_words() for one in (asked, three, record(0))] == [
        "3 of 4",
        "3",
        "-",
    ]
    assert round_result(0, {"a": three | {"contributors": [], "taken_from": "b"}}).update_words() == "-"
    assert round_result(0, {"a": None, "b": asked}).update_words() == "3 of 4"


def test_the_figures_of_one_node_are_not_called_means() -> None:
    def titles(*nodes: str) -> list[str]:
        results = [round_result(0, dict.fromkeys(nodes, measured(0, 0.5, f1_macro=0.5)))]
        return [str(one.title) for one in (results_table(results), *metrics_tables(results, every=False))]

    assert titles("n1") == ["Results on n1", "Further metrics after averaging, on n1"]
    assert titles("n1", "n2") == ["Results", "Further metrics after averaging, means over the nodes"]


def test_the_summary_says_gain_and_sameness() -> None:
    rounds = [round_result(n, {"a": record(n) | {"seconds": {"train": 2.0}}, "b": record(n)}) for n in range(2)]
    assert summary(rounds) == (
        "2 rounds in 4.0 s; mean accuracy from 0.5000 to 0.7500 (before the first averaging, after the last); "
        "after every round all nodes held the same model, bit by bit"
    )


def together(accuracy: float, basis: str = "counts") -> dict[str, object]:
    """What all nodes reached together, as a record has it."""
    return {"mesh": {"accuracy": accuracy, "basis": basis, "examples": 210, "nodes": 2}}


def test_where_nodes_count_the_accuracy_is_that_of_all_rows_and_the_mean_of_nodes_stands_beside_it() -> None:
    rounds = [
        round_result(n, {"a": record(n) | together(0.625 + n / 8), "b": record(n) | together(0.5)})
        for n in range(2)
    ]
    assert summary(rounds).startswith(
        "2 rounds in 0.0 s; accuracy 0.7500 on 210 test rows of 2 nodes after the last averaging, 0.6250 after the first; "
        "mean of nodes from 0.5000 to 0.7500 (before the first averaging, after the last); "
    )
    assert str(rounds[0]).startswith(
        "round 0: 0.6250 on all rows; mean of nodes before 0.5000, after 0.7500, model"
    )
    columns = [str(column.header) for column in results_table(rounds).columns]
    assert columns[:4] == ["round", "all rows", "before averaging: mean of nodes (low - high)", "after"]
    assert list(results_table(rounds).columns[1].cells) == ["0.6250", "0.7500"]
    one = [round_result(0, {"a": record(0) | together(0.625)})]
    assert "; accuracy 0.6250 on 210 test rows of 2 nodes after the last averaging; on a from" in summary(one)
    assert str(one[0]).startswith("round 0: 0.6250 on all rows; on a before 0.5000, after 0.7500")


@pytest.mark.parametrize("basis", ["examples", "nodes"])
def test_without_counts_the_accuracy_is_a_mean_and_says_so(basis: str) -> None:
    rounds = [round_result(0, {name: record(0) | together(0.625, basis) for name in "ab"})]
    assert "; mean accuracy from 0.5000 to 0.7500 (before the first averaging, after the last); all" in summary(
        rounds
    )
    assert "all nodes together 0.6250, " in summary(rounds)
    assert str(rounds[0]).startswith("round 0: before 0.5000, after 0.7500")


def test_the_summary_names_rounds_with_different_models() -> None:
    rounds = [round_result(4, {"a": record(4, "x"), "b": record(4, "y")})]
    assert summary(rounds).endswith("the nodes' models differed after round 4")


def test_the_summary_gives_the_distance_of_neighbours_where_nodes_average_with_neighbours_alone() -> None:
    told = [{"a": record(n, "x") | {"spread": 1.0 / (n + 1)}, "b": record(n, "y")} for n in range(2)]
    assert summary([round_result(n, records) for n, records in enumerate(told)]).endswith(
        "each node holds a model of its own; before the last averaging, the distance of neighbours was 50.00%"
    )
    missing = round_result(2, {**told[1], "c": None})
    assert summary([missing]).endswith("the nodes' models differed after round 2")


def test_a_round_without_an_average_is_no_success_and_says_why() -> None:
    spent = "its privacy budget is spent"
    none: dict[str, object] = {
        "digest": None,
        "contributors": [],
        "pre_fedavg_accuracy": None,
        "post_fedavg_accuracy": None,
    }
    empty = round_result(5, {name: record(5) | none | {"left_out": {"a": spent, "b": spent}} for name in "ab"})
    assert str(empty) == f"round 5: NO AVERAGE: a, b: {spent}"
    rounds = [round_result(4, {"a": record(4), "b": record(4)}), empty]
    assert no_average(rounds) == f"no average in round 5: a, b: {spent}"
    assert "mean accuracy from unknown" not in summary(rounds)
    assert summary(rounds).endswith(f"; no average in round 5: a, b: {spent}")
    assert no_average(rounds[:1]) == ""
    assert round_result(5, {"a": record(5) | none | {"left_out": {}}}).why_empty == "no node was to train"


def test_the_summary_gives_the_means_of_the_last_round() -> None:
    a, b = measured(0, 0.5, auc=0.5, accuracy=0.5), measured(0, 0.5, auc=0.75, f1_macro=0.25, accuracy=0.5)
    message = summary([round_result(0, {"a": a, "b": b})])
    assert message.endswith("; further means after the last averaging: f1_macro 0.2500, auc 0.6250")


def shown(*, every: bool) -> str:
    many = {f"figure_{i}": i / 100 for i in range(7)}
    results = [round_result(n, {"a": measured(n, 0.5, **many, global_f1_macro=0.125 * n)}) for n in (0, 1)]
    out = StringIO()
    for table in metrics_tables(results, every):
        Console(file=out, width=160).print(table)
    return out.getvalue()


def test_the_most_telling_figures_stand_first_and_the_rest_on_request() -> None:
    few = shown(every=False)
    header = next(line for line in few.splitlines() if "round" in line and "figure_0" in line)
    assert header.split() == ["round", "global_f1_macro", *(f"figure_{i}" for i in range(5))]
    assert "0.1250" in few
    assert "figure_6" not in few
    assert "figure_6" in shown(every=True)
