"""The report of finished cells: tables, comparisons, plots, CSV files, and what is missing."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from flnet.errors import LocalError
from flnet.experiments import plots, report
from flnet.experiments.cells import Outcome
from flnet.experiments.plan import Measure
from flnet.experiments.plots import draw_ranks, save
from flnet.experiments.published import PublishedTest
from flnet.experiments.report import (
    MOST_PAIRS,
    measure_section,
    published_section,
    read_table,
    write_report,
    write_table,
)
from flnet.experiments.statistics import RankComparison, compare, entries
from tests.experiments.cells import TABLE, results_of, small_plan

pytest.importorskip("scipy", reason="SciPy is not installed")


@pytest.fixture
def no_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plots take a second each."""
    monkeypatch.setattr(report, "write_plots", lambda *args: [])


def written(folder: Path, count: int | None = None) -> tuple[str, list[Path]]:
    """The text of a report of the first `count` cells of the small plan, and the paths of its files."""
    plan = small_plan(folder)
    cells = plan.cells()
    paths = write_report(plan, cells, results_of(folder, cells[:count]), folder / "out")
    assert all(path.is_file() for path in paths)
    return (folder / "out/report.md").read_text("utf-8"), paths


def test_the_report_has_numbers_differences_tests_and_reasons(tmp_path: Path, no_plots: None) -> None:
    text, _ = written(tmp_path)
    for expected in (
        "Compared with: nobody 2026, table 1.",
        "18 of 27 trainings are done, in 27 s (18 s of processor time).",
        "Machine: two cores.",
        "| scene | 0.6100 ± 0.0100 (3)<br>0.6000 +0.0100 | 0.7100 ± 0.0100 (3)<br>0.9000 -0.1900 | "
        "0.5100 ± 0.0100 (3)<br>> 0.4 holds |",
        "| scene | 1,000 ± 0 (3) |",
        "| ye\\|ast | 0.6100 ± 0.0100 (3) |",
        "1 of 2 cells are near the published value.",
        "Near is within 2 standard errors of the difference; for the other 1 cells it is within 0.05 (below 0.1, 50% of",
        "| within the tolerance | 0 | 0 |",
        "| farther | 0 | 1 |",
        "1 of 1 cells keep the bound that the source has in place of a value.",
        "| scene | agg1 | accuracy | 0.9000 | 0.7100 | -0.1900 | 0.0100 | 23.3 | no | 2 |",
        "Hypotheses about them. All were made after the results were seen",
        "- **agg1** (1): Theirs is a typing error.",
        "agg0 2.0000, agg1 1.0000, alone 3.0000 | 6 | 12.0000 | 0.00248 |",
        "agg1 above alone",
        "- lost, agg0; lost, agg1; lost, alone: no data set lost.npz.",
    ):
        assert expected in text


@pytest.mark.parametrize(
    ("count", "done", "missing"), [(4, "4 of 27", "23 trainings"), (0, "0 of 27", "27 trainings")]
)
def test_an_interrupted_run_has_a_report(
    tmp_path: Path, no_plots: None, count: int, done: str, missing: str
) -> None:
    text, _ = written(tmp_path, count)
    assert f"{done} trainings are done" in text
    assert f"{missing} have not been run yet" in text


def test_a_report_says_what_a_number_is_of_the_nodes(tmp_path: Path, no_plots: None) -> None:
    assert "Mean of nodes; mean ± standard deviation over seeds" in (text := written(tmp_path)[0])
    assert "\n\nMean ± standard deviation over seeds" in text  # bytes are of no node
    words = {
        "Lowest node; m": Measure(name="a", over="min"),
        "Node 2; m": Measure(name="a", over=2),
        "All rows of the nodes together, from summed counts (small); m": Measure(
            name="a", over="rows", nodes=("small",)
        ),
        "Rounds until the mean of nodes is as high as in central; m": Measure(name="a", reaches="central"),
    }
    assert [report._over_words(measure) for measure in words.values()] == list(words)


def test_curves_have_all_rows_where_a_measure_has_them(tmp_path: Path) -> None:
    plan = small_plan(tmp_path, TABLE + '[[measures]]\nname = "all rows"\nover = "rows"\n')
    cells = [cell for cell in plan.cells() if (cell.row, cell.column) == ("scene", "agg0")]
    right = {"after.accuracy": (((1, 4), (2, 4)), ((3, 8), (8, 8)))}
    done = [
        (cell, outcome.model_copy(update={"right": right}))
        for cell in cells
        if (outcome := results_of(tmp_path, cells).get(cell))
    ]
    head, *lines = report._curve_rows(plan, done)
    assert head[-1] == "all_rows"
    assert [line[-1] for line in lines[:2]] == [4 / 12, 10 / 12]
    assert [name for _, name, *_ in plots._curves(plan, done)] == [
        "curves scene after.accuracy",
        "curves scene after.accuracy all rows",
    ]


def test_csv_files_hold_all_numbers(tmp_path: Path, no_plots: None) -> None:
    written(tmp_path)
    with (tmp_path / "out/table.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert len(table) == 18
    assert (float(table[0]["mean"]), float(table[0]["difference"])) == pytest.approx((0.61, 0.01))
    with (tmp_path / "out/cells.csv").open(newline="") as file:
        cells = list(csv.DictReader(file))
    assert len(cells) == 27
    assert float(cells[1]["accuracy"]) == pytest.approx(0.61)
    assert cells[-1]["reason"] == "no data set lost.npz"
    assert report._no_formula("=1+1") == "'=1+1"
    assert [table[n]["published"] for n in range(3)] == ["0.6", "0.9", "> 0.4"]
    assert [table[n]["near"] for n in range(4)] == ["yes", "no", "yes", ""]


def test_a_table_that_was_written_gives_the_same_sections(tmp_path: Path, no_plots: None) -> None:
    written(tmp_path)
    plan = small_plan(tmp_path)
    cells = plan.cells()
    table = entries(plan, cells, results_of(tmp_path, cells))
    again = read_table(plan, tmp_path / "out/table.csv")
    for name in ("accuracy", "bytes"):
        assert list(measure_section(plan, name, again)) == list(measure_section(plan, name, table))
    assert list(published_section(plan, again)) == list(published_section(plan, table))
    write_table(plan, again, tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "out/table.csv").read_bytes()
    (tmp_path / "again.csv").write_text("row,mean\nx,y\n")
    with pytest.raises(LocalError, match=r"again.csv is no table of small"):
        read_table(plan, tmp_path / "again.csv")


def test_a_row_may_be_the_mean_of_others(tmp_path: Path, no_plots: None) -> None:
    """It has a published value of its own, counts in no rank test, and is kept like other rows."""
    more = '[[means]]\nname = "both"\nof = ["scene", "ye|ast"]\n[[means]]\nname = "none"\nof = ["scene", "lost"]\n'
    value = '[[published]]\nrow = "both"\ncolumn = "agg0"\nmeasure = "accuracy"\nvalue = 0.7\n'
    plan = small_plan(tmp_path, TABLE.replace("[[notes]]", f"{more}{value}[[notes]]"))
    cells = plan.cells()
    assert [cell.row for cell in cells] == [cell.row for cell in small_plan(tmp_path).cells()]
    results = results_of(tmp_path, cells)
    results.add([(cell, Outcome(figures={"after.accuracy": (0.3,)})) for cell in cells if cell.row == "ye|ast"])
    write_report(plan, cells, results, tmp_path / "out")
    text = (tmp_path / "out/report.md").read_text("utf-8")
    assert "| both | 0.4550 ± 0.0050 (3)<br>0.7000 -0.2450 | 0.5050 ± 0.0050 (3) | 0.4050 ± 0.0050 (3) |" in text
    assert "| none | - | - | - |" in text
    assert "| 6 |" in text  # rows of the rank test: two of the table with three seeds
    again = read_table(plan, tmp_path / "out/table.csv")
    assert (
        list(measure_section(plan, "accuracy", again))[-2:]
        == [line for line in text.splitlines() if line.startswith(("| both | 0.4", "| none"))][:2]
    )


def test_the_deviation_of_the_source_stands_behind_its_value(tmp_path: Path) -> None:
    plan = small_plan(tmp_path, TABLE.replace("value = 0.6\n", "value = 0.6\nspread = 0.02\n"))
    cells = plan.cells()
    lines = list(measure_section(plan, "accuracy", entries(plan, cells, results_of(tmp_path, cells))))
    assert "below it the published value ± its standard deviation and the difference" in lines[0]
    assert "| scene | 0.6100 ± 0.0100 (3)<br>0.6000 ± 0.0200, +0.0100 |" in lines[3]


def test_figures_of_single_nodes_are_told_and_kept_by_round(tmp_path: Path, no_plots: None) -> None:
    plan = small_plan(tmp_path).model_copy(
        update={"by_node": ("after.answered_accuracy", "after.accuracy", "none")}
    )
    cells = plan.cells()
    write_report(plan, cells, results_of(tmp_path, cells), tmp_path / "out")
    text = (tmp_path / "out/report.md").read_text("utf-8")
    assert "### scene, agg1\n\n|  | node 1 | node 2 | node 3 |\n" in text
    assert "| after.accuracy | 0.6100 | 0.8100 |  |" in text
    assert "| none |" not in text
    with (tmp_path / "out/nodes.csv").open(newline="") as file:
        lines = [line for line in csv.DictReader(file) if (line["row"], line["column"]) == ("scene", "agg1")]
    told = [
        (line["figure"], line["node"], line["round"], line["mean"], line["standard_deviation"]) for line in lines
    ]
    assert told == [
        ("after.answered_accuracy", "1", "2", "0.61", "0.01"),
        ("after.answered_accuracy", "2", "2", "0.81", "0.01"),
        ("after.accuracy", "1", "1", "0.2", "0"),
        ("after.accuracy", "1", "2", "0.61", "0.01"),
        ("after.accuracy", "2", "1", "0.4", "0"),
        ("after.accuracy", "2", "2", "0.81", "0.01"),
    ]


def test_published_rank_tests_are_shown_with_ours() -> None:
    theirs = PublishedTest(measure="accuracy", columns=("a", "b"), ranks=(), statistic=3.5, p=0.06, words="copied")
    text = "\n".join(report.rank_tests_section([comparison(2), comparison(3)], [theirs]))
    assert "| differ | published Q | published p |" in text
    assert "| b above a | 3.5000 | 0.06 |" in text
    assert "c above a |  |  |" in text or "c above b |  |  |" in text
    assert "Published Q and p: copied." in text
    printed = theirs.model_copy(update={"printed_p": 7.65e-11})
    assert "0.06 (printed: 7.65e-11)" in "\n".join(report.rank_tests_section([comparison(2)], [printed]))


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(LocalError, match="cannot be written"):
        written(tmp_path)


def test_without_libraries_the_report_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    text, paths = written(tmp_path)
    assert "Not in this report: this test needs SciPy" in text
    assert "Not in this report: plots need matplotlib" in text
    assert {path.suffix for path in paths} == {".md", ".csv"}


# Rank tests.


def comparison(columns: int, rows: int = 8) -> RankComparison:
    """Columns a, b, c ..., each better than the one before it in every row."""
    table = np.arange(columns) + np.random.default_rng(1).uniform(0, 0.5, (rows, columns))
    return compare(Measure(name="accuracy"), tuple("abcdefghij"[:columns]), table)


def rank_tests(*tests: RankComparison) -> str:
    return "\n".join(report.rank_tests_section(tests))


def test_two_columns_have_a_sentence_and_more_have_a_row_for_each_pair() -> None:
    assert rank_tests() == ""
    two = "Wilcoxon's signed ranks, accuracy, a and b: W 0, p 0.00781, 8 rows that differ."
    assert two in rank_tests(comparison(2))
    text = rank_tests(comparison(3))
    assert "for all 3 of them" in text
    for better, other in ("ba", "ca", "cb"):
        assert f"| {better} | {other} | 0 | 8 | 0.00781 | 0.0234 |" in text
    assert "c above a" in text


def test_of_many_pairs_only_the_first_are_listed() -> None:
    text = rank_tests(comparison(7))
    assert text.count("| 0.00781 |") == MOST_PAIRS
    assert "The other 6 pairs have a p of 0.164 or more after Holm." in text
    assert "The other 6 pairs have a p of 1 after Holm." in rank_tests(comparison(7, rows=2))


# Plots.


def texts(path: Path) -> str:
    """All text of an SVG file."""
    return " ".join("".join(element.itertext()) for element in ElementTree.parse(path).iter())


def test_the_report_links_all_plots(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    text, paths = written(tmp_path)
    links = [part.split(")")[0] for part in text.split("](")[1:]]
    assert {tmp_path / "out" / link for link in links} <= set(paths)
    names = [
        *("bars-accuracy", "bars-bytes", "curves-scene-after.accuracy", "curves-ye-ast-after.accuracy"),
        *("ranks-accuracy-agg0-agg1-alone", "ranks-accuracy-agg1-alone"),
    ]
    assert sorted(path.stem for path in paths if path.suffix == ".svg") == names
    assert sorted(links) == [f"pictures/{name}.png" for name in names]
    curves = texts(tmp_path / "out/pictures/curves-scene-after.accuracy.svg")
    assert "agg0 (0.6100)" in curves  # the last round, over three seeds
    bars = texts(tmp_path / "out/pictures/bars-accuracy.svg")
    assert "scene" in bars
    assert "published" in bars
    assert "lost" not in bars


def test_equal_plots_are_equal_files_whatever_their_names_are(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    test = comparison(3)
    test = RankComparison("a < b & $c$\n", ("$x_1$", "<y>", "&z\x00"), test.friedman, test.distance)

    def draw(axes: Any) -> None:
        draw_ranks(axes, test)

    for name in ("one.svg", "two.svg"):
        save(test.measure, draw, [tmp_path / name])
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    for expected in ("a < b & $c$", "$x_1$ (3.000)", "<y> (2.000)", f"CD = {test.distance:.4f}"):
        assert expected in texts(tmp_path / "one.svg")


def test_a_single_round_is_no_curve(tmp_path: Path) -> None:
    plan = small_plan(tmp_path)
    cells = [cell for cell in plan.cells() if cell.row == "scene"]
    results = results_of(tmp_path, cells)
    done = [(cell, outcome) for cell in cells if (outcome := results.get(cell))]
    one = {"after.accuracy": ((0.5,), (0.6,))}
    short = [(cell, outcome.model_copy(update={"curves": one})) for cell, outcome in done]
    assert [name for _, name, *_ in plots._curves(plan, done)] == ["curves scene after.accuracy"]
    assert list(plots._curves(plan, short)) == []


def test_costs_are_summed_by_row_and_a_shared_training_counts_once(tmp_path: Path, no_plots: None) -> None:
    text, _ = written(tmp_path)
    cost = text.partition("## Cost")[2]
    assert "| scene | 9 | 1 s | 9 s | 14 s |" in cost
    assert "| lost |" not in cost
    # Alone, a node has no use for what happens between nodes; so 5 nodes with exchange are the same training.
    plan = small_plan(
        tmp_path, TABLE.replace('name = "ye|ast"\nnodes = 5', 'name = "same"\nnodes = 4\nexchange = true')
    )
    cells = [cell for cell in plan.cells() if cell.row != "lost"]
    (first, second) = (cell for cell in cells if cell.column == "alone" and cell.seed == 0)
    assert first.key == second.key
    write_report(plan, cells, results_of(tmp_path / "shared", cells), tmp_path / "shared")
    text = (tmp_path / "shared/report.md").read_text("utf-8")
    assert "18 of 18 trainings are done, in 22 s (15 s of processor time)." in text
    assert "| same | 6 | 1 s | 6 s | 9 s |" in text
    assert text.rstrip().endswith("All together 0.00 processor-hours.")


def test_curves_are_kept_by_round(tmp_path: Path, no_plots: None) -> None:
    written(tmp_path, 2)
    with (tmp_path / "out/curves.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["figure"], row["row"], row["seed"], row["round"]) for row in rows] == [
        ("after.accuracy", "scene", seed, number) for seed in "01" for number in "12"
    ]
    assert [float(row["mean"]) for row in rows] == pytest.approx([0.3, 0.6, 0.3, 0.61])
