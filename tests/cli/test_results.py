from __future__ import annotations

import json
from io import StringIO

from rich.console import Console

from flnet.cli.results import Spread, failure, figures_tables, results_table, round_result, summary
from tests.cli.fake_node import measured, record


def test_spread_of_what_is_there() -> None:
    assert Spread.of([0.5, None, 1.0]) == Spread(0.75, 0.5, 1.0)
    assert Spread.of([None]) is None
    assert str(Spread(0.75, 0.5, 1.0)) == "0.7500 (0.5000 - 1.0000)"
    assert str(Spread(0.75, 0.75, 0.75)) == "0.7500"


def test_equal_digests_are_one_model() -> None:
    result = round_result(3, {"a": record(3, "0123456789abcdef"), "b": record(3, "0123456789abcdef")}, 1.25)
    assert result.same_model
    assert str(result) == ("round 3: before 0.5000, after 0.7500, model 0123456789 on all 2 nodes, 1.2 s")


def test_unequal_digests_are_told_apart() -> None:
    result = round_result(0, {"a": record(0, "aaaa"), "b": record(0, "bbbb")}, 1)
    assert not result.same_model
    assert result.models() == "DIFFERENT: a aaaa, b bbbb"


def test_no_digest_is_no_equal_model() -> None:
    assert not round_result(0, {"a": {"round": 0, "digest": None}}, 1).same_model


def test_a_node_without_result_is_named() -> None:
    result = round_result(0, {"a": record(0), "b": None}, 1)
    assert not result.same_model
    assert result.models() == "no result: b"


def test_what_failed_on_a_node_is_said() -> None:
    good = round_result(1, {"a": record(1)}, 1)
    bad = round_result(2, {"a": record(2), "b": record(2) | {"error": "out of memory\x1b"}}, 1)
    assert bad.models() == r"FAILED: b out of memory\x1b"
    assert failure([good]) is None
    assert failure([good, bad]) == r"round 2 failed: b out of memory\x1b"


def test_the_table_has_a_row_per_round() -> None:
    out = StringIO()
    Console(file=out, width=160).print(results_table([round_result(n, {"a": record(n)}, n) for n in (7, 8)]))
    rows = [line.split()[0] for line in out.getvalue().splitlines() if line.strip()[:1].isdigit()]
    assert rows == ["7", "8"]


def test_fields_are_json() -> None:
    fields = json.loads(json.dumps(round_result(0, {"a": record(0), "b": None}, 1).fields()))
    assert fields["missing"] == ["b"]
    assert fields["pre"] == {"mean": 0.5, "low": 0.5, "high": 0.5}
    assert fields["same_model"] is False


def test_the_summary_says_gain_and_sameness() -> None:
    rounds = [round_result(n, {"a": record(n), "b": record(n)}, 2.0) for n in range(2)]
    assert summary(rounds) == (
        "2 rounds in 4.0 s; mean accuracy from 0.5000 to 0.7500 (before the first averaging, after the last); "
        "after every round all nodes held the same model, bit by bit"
    )


def test_the_summary_names_rounds_with_different_models() -> None:
    rounds = [round_result(4, {"a": record(4, "x"), "b": record(4, "y")}, 1)]
    assert summary(rounds).endswith("the nodes' models differed after round 4")


def test_the_summary_gives_the_means_of_the_last_round() -> None:
    a, b = measured(0, 0.5, auc=0.5, accuracy=0.5), measured(0, 0.5, auc=0.75, f1_macro=0.25, accuracy=0.5)
    said = summary([round_result(0, {"a": a, "b": b}, 1)])
    assert said.endswith("; further means after the last averaging: f1_macro 0.2500, auc 0.6250")


def shown(*, every: bool) -> str:
    many = {f"figure_{i}": i / 100 for i in range(7)}
    results = [round_result(n, {"a": measured(n, 0.5, **many, global_f1_macro=0.125 * n)}, 1) for n in (0, 1)]
    out = StringIO()
    for table in figures_tables(results, every):
        Console(file=out, width=160).print(table)
    return out.getvalue()


def test_the_most_telling_figures_stand_first_and_the_rest_on_request() -> None:
    few = shown(every=False)
    header = next(line for line in few.splitlines() if "round" in line and "figure_0" in line)
    assert header.split() == ["round", "global_f1_macro", *(f"figure_{i}" for i in range(5))]
    assert "0.1250" in few
    assert "figure_6" not in few
    assert "figure_6" in shown(every=True)


def test_without_further_figures_there_is_no_table_of_them() -> None:
    assert figures_tables([round_result(0, {"a": record(0)}, 1)], every=True) == []
