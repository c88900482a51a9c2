"""Keeps docs/results true: reports follow from their means, and documents quote what was published or kept."""

from __future__ import annotations

import csv
import importlib.util
import re
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from flnet.experiments.plan import find_plan
from flnet.experiments.published import WORKS, Value, published_lines
from flnet.experiments.report import REPORT
from tests.test_layout import ROOT

RESULTS = ROOT / "docs" / "results"
INDEX = RESULTS / "README.md"
DOCUMENTS = [*sorted((ROOT / "docs").glob("*.md")), INDEX]
PAGES = [*DOCUMENTS, *sorted(RESULTS.glob(f"*/{REPORT}"))]  # tables of reports are rendered from the file
NUMBER = r"-?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?"
QUOTED = re.compile(rf"(?P<number>{NUMBER})(?P<percent> %)?<!-- (?P<kind>[=~])(?P<key>[^>]*?) -->")
TAG = re.compile(r"<!-- [=~].*?-->")
CLAIM = re.compile(rf"published (?:[a-z-]+ ){{0,3}}\(?(?:above )?{NUMBER}(?:\.\d+)?(?! ?test)(?P<rest>.{{0,16}})")
STATES = ("**reproduced**", "**in part**", "**not here**")


@cache
def renderer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("results", ROOT / "docs" / "results.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def decimals(number: str) -> int:
    """Digits after the point, counting an exponent: 2 for 0.25, 12 for 2.2e-11."""
    mantissa, _, exponent = number.partition("e")
    return len(mantissa.partition(".")[2]) - int(exponent or 0)


def says(quoted: re.Match[str], true: float) -> bool:
    """Whether a quoted number is the true one, rounded as it is quoted; shares may be in points."""
    number = quoted["number"].replace(",", "")
    scales = (100,) if quoted["percent"] else (1, 100)
    half = 0.5 * 10 ** -decimals(number) * (1 + 1e-6)
    return any(abs(float(number) - scale * true) <= half for scale in scales)


@cache
def published() -> dict[tuple[str, ...], Value]:
    """Every value of the file, and every deviation, whose measure ends in ", deviation"."""
    values: dict[tuple[str, ...], Value] = {}
    for line in published_lines():
        values[line.work, line.row, line.column, line.measure] = line.value
        if line.spread is not None:
            values[line.work, line.row, line.column, f"{line.measure}, deviation"] = Value.of(line.spread)
    return values


def mean_of(table: str, row: str, column: str, measure: str) -> float:
    mean = renderer().means_of(table)[row, column, measure].mean
    assert mean is not None, f"{table} has no mean of {row}, {column}, {measure}"
    return float(mean)


def test_reports_are_those_that_their_means_give() -> None:
    assert renderer().outdated(write=False) == [], "run: python docs/results.py"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_quoted_value_is_the_one_that_was_published_or_kept(path: Path) -> None:
    text = path.read_text("utf-8")
    found = list(QUOTED.finditer(text))
    assert len(found) == len(TAG.findall(text)), "a comment that names a value stands behind no number"
    for quoted in found:
        key = tuple(quoted["key"].split("; "))
        true = published()[key].ends if quoted["kind"] == "=" else (mean_of(*key),)
        assert any(says(quoted, value) for value in true), f"{quoted[0]}: it is {true}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_published_number_names_its_line_of_the_file(path: Path) -> None:
    for line in path.read_text("utf-8").splitlines():
        for claim in CLAIM.finditer(line):
            assert "<!-- =" in claim["rest"] or " to 0." in claim["rest"], (
                f"no line of published.csv is named: {claim[0]}"
            )


def tables(text: str) -> list[list[list[str]]]:
    """The tables of a document, as rows of cells; a comment right above a table is its first row."""
    found: list[list[list[str]]] = [[]]
    above = ""
    for line in text.splitlines():
        if line.startswith("|"):
            found[-1] += [] if found[-1] else [[above]]
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
        elif found[-1]:
            found.append([])
        above = line
    return [table for table in found if table]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_published_columns_and_rows_name_their_lines(path: Path) -> None:
    """Each number has a comment of its own, or one above the table names work, row and measures of all of them."""
    for (above,), head, _, *rows in tables(path.read_text("utf-8")):
        columns = [at for at, name in enumerate(head) if re.match(r"published(?! test)", name)]
        shared = re.fullmatch(r"<!-- published: (.*) -->", above)
        for row in rows:
            cells = row[1:] if row[0] == "published" else [row[at] for at in columns]
            quoted = " ".join(cells)
            if shared is None:
                assert len(QUOTED.findall(quoted)) == len(re.findall(NUMBER, TAG.sub("", quoted))), quoted
                continue
            work, place, *measures = shared[1].split("; ")
            numbers = list(re.finditer(f"(?P<number>{NUMBER})(?P<percent> %)?", quoted))
            assert len(numbers) in {0, len(measures)}, quoted
            for number, measure in zip(numbers, measures, strict=False):
                value = published()[work, place, row[0], measure]
                assert any(says(number, end) for end in value.ends), f"{number[0]} in {row[0]}, {measure}"


# The index.


def test_every_work_and_every_place_of_a_published_value_has_a_line() -> None:
    text = INDEX.read_text("utf-8")
    parts = dict(part.split("\n", 1) for part in re.split(r"(?m)^### ", text)[1:])
    for line in published_lines():
        assert f"| {line.place} |" in parts[WORKS[line.work]], f"no line of {line.work}, {line.place}"
    expected = {
        "delgado2024": ["algorithm 1", "section 5", "tables 5.1 to 5.3", "tables 5.5 to 5.8"]
        + [f"table 5.{n}" for n in (4, 9, 14)]
        + ["figures", "section 3.1.2", "section 3.1.4", "section 6.2", "chapter 6"],
        "martinez": [f"table {n}" for n in (1, 2, 3, 4, 6, 8, 9, 10, 12)]
        + ["tables 5, 7 and 11", "ablation under attack", "Friedman's test", "figures 1 to 4", "figures 5 to 9"],
        "tornaria2024": [
            "table 3.1",
            "algorithm 1",
            "figure 4.3",
            "chapter 4, schools by rate of drop-outs",
            "k-means",
            "section 5.2",
            "algorithms 3 and 4",
            "section 2.5.2",
        ],
        "garcia2021": ["annex 1", "section 3.1.2", "section 3.3", "section 3.5", "chapter 4"],
        "zhang2024": ["all tables and figures of results", "algorithm 1"],
    }
    for work, places in expected.items():
        rows = [row for _, _, _, *rows in tables(parts[WORKS[work]]) for row in rows]
        assert all(any(row[0].startswith(place) for row in rows) for place in places), work
        assert all(row[-1].startswith(STATES) for row in rows), work
    for words in ("who benefits", "its other tables and figures", "central and federated over C, R and E"):
        assert f"| chapter 4 | {words}" in text.replace("drop-out: ", ""), words


def test_every_report_has_a_line_with_its_number_of_trainings() -> None:
    text = INDEX.read_text("utf-8")
    for report in sorted(RESULTS.glob(f"*/{REPORT}")):
        name = report.parent.name
        (line,) = re.findall(rf"(?m)^\| \[{name}\]\({name}/report.md\).*$", text)
        if done := re.search(r"(?m)^(\d+ of \d+ trainings) are done", report.read_text("utf-8")):
            assert done[1] in line, name


def test_the_cost_of_all_trainings_is_the_sum_of_the_reports() -> None:
    """The hours of a processor and by the reports' own clocks, and which reports have no costs, or not those of rows."""
    text = " ".join(INDEX.read_text("utf-8").split())
    stated = re.search(
        r"took (\d+\.\d) hours of a processor, and (\d+\.\d) hours by the reports' own clocks.*? without three reports "
        r"that state no processor time: (.*?) What each row cost is in each report but those of (.*?), which have only",
        text,
    )
    assert stated
    reports = {path.parent.name: path.read_text("utf-8") for path in RESULTS.glob(f"*/{REPORT}")}
    costs = {
        name: re.search(r"are done, in ([\d.]+) (h|min|s) \(([\d.]+) (h|min|s) of processor time\)", report)
        for name, report in reports.items()
    }
    unit = {"h": 1, "min": 1 / 60, "s": 1 / 3600}
    processor = sum(float(cost[3]) * unit[cost[4]] for cost in costs.values() if cost)
    clock = sum(float(cost[1]) * unit[cost[2]] for cost in costs.values() if cost)
    assert [float(stated[1]), float(stated[2])] == [round(processor, 1), round(clock, 1)]
    named = [re.findall("`([a-z0-9-]+)`", part) for part in (stated[3], stated[4])]
    assert sorted(named[0]) == sorted(name for name, cost in costs.items() if not cost)
    assert named[1] == sorted(name for name, cost in costs.items() if cost and "\n## Cost\n" not in reports[name])


def test_counts_of_near_cells_are_those_of_the_means() -> None:
    plan = find_plan("mlfedavg")
    cells = [cell for cell in renderer().means_of("mlfedavg").values() if cell.difference is not None]
    near = {number for number, cell in enumerate(cells) if cell.is_near(plan.tolerance)}
    within = {number for number, cell in enumerate(cells) if cell.is_within(plan.tolerance)}
    words = f"{len(near)} of {len(cells)} cells within two standard errors, {len(within)} within 0.03"
    for path in (INDEX, ROOT / "docs" / "experiments.md"):
        assert f"{words}, {len(near & within)} both" in path.read_text("utf-8")
    neither = len(cells) - len(near | within)
    assert f"{neither} are\nneither within these nor within 0.03" in INDEX.read_text("utf-8")


def test_p_of_our_rank_tests_are_those_of_the_report() -> None:
    rows = re.findall(
        r"(?m)^\| (\S+) \| (agg\S+ [^|]*) \| 144 \| \S+ \| (\S+) \|",
        (RESULTS / "mlfedavg" / REPORT).read_text("utf-8"),
    )
    assert len(rows) == 8
    text = (ROOT / "docs" / "experiments.md").read_text("utf-8")
    for columns in ("agg0, agg1, agg2", "agg2, alone"):
        cells = re.search(rf"(?m)^\| {columns}: ours \| (.*) \|$", text)
        assert cells is not None
        ours = [float(p) for _, ranks, p in rows if ", ".join(re.findall("[a-z]+[0-9]?(?= )", ranks)) == columns]
        assert [float(cell) for cell in cells[1].split(" | ")] == [pytest.approx(p, rel=0.03) for p in ours]


def test_plots_are_there_with_their_words() -> None:
    pages = {path: re.findall(r"!\[([^\]]+)\]\(([^)]+\.svg)\)", path.read_text("utf-8")) for path in DOCUMENTS}
    shown = {
        words: str((path.parent / link).relative_to(RESULTS)) for path in pages for words, link in pages[path]
    }
    assert {f"{name}.svg" for name in renderer().PLOTS} == set(shown.values())
    for words, name in shown.items():
        assert len(words) > 80, name
        assert (RESULTS / name).stat().st_size < 50_000


def test_plots_are_drawn_from_the_kept_means() -> None:
    figure = pytest.importorskip("matplotlib.figure", reason="matplotlib is not installed")
    drawn = {name: figure.Figure().add_subplot() for name in renderer().PLOTS}
    for name, axes in drawn.items():
        renderer().PLOTS[name][1](axes)
    dots = [line for line in drawn["published-and-measured"].lines if line.get_label() != "equal"]
    pairs = sorted((x, y) for line in dots for x, y in zip(*line.get_data(), strict=True))
    kept = [entry for entry in renderer().means_of("mlfedavg").values() if entry.difference is not None]
    assert pairs == sorted((entry.published.value.low, entry.mean) for entry in kept)
    assert len(pairs) == 128
    lines = {line.get_label(): list(line.get_ydata()) for line in drawn["schools"].lines}
    assert lines["courses"][-1] == mean_of("dropout", "39 courses, R = 10, E = 2", "C = 100 %", "all test rows")
    assert {len(values) for name, values in lines.items() if name != "all rows in one place"} == {5}
    rounds = {line.get_label(): list(line.get_ydata()) for line in drawn["rounds-to-central/accuracy"].lines}
    row, measure = "54 schools of 1000, 14 a round, E = 2", "accuracy after the last round"
    assert rounds["14 schools a round, E = 2"][-1] == mean_of("rounds-to-central", row, "federated", measure)
    assert rounds["all rows in one place, 20 passes"][0] == mean_of("rounds-to-central", row, "central", measure)
    photographs = {
        line.get_label(): list(line.get_ydata()) for line in drawn["central-or-federated/accuracy"].lines
    }
    row = "CIFAR-10, 2 of 7 nodes, R = 30, E = 2"
    assert photographs["2 of 7 nodes, R = 30, E = 2"][-1] == mean_of(
        "central-or-federated", row, "federated", "accuracy"
    )
    for name in ("mesh-or-alone", "fine-and-coarse-labels", "one-hostile-node"):
        assert drawn[name].get_legend_handles_labels()[1]


# Rounds of large meshes.

SCALE_MEANS = ("seconds", "mb_mean", "requests_mean")


@cache
def scale() -> dict[tuple[str, str, int], dict[str, dict[str, float]]]:
    """The table of rounds, by topology, link and nodes: what was simulated, and what was calculated."""
    rows: dict[tuple[str, str, int], dict[str, dict[str, float]]] = {}
    with (RESULTS / "scale" / "table.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            topology, link, nodes, how = row["topology"], row["link"], int(row["nodes"]), row["how"]
            figures = {name: float(row[name]) for name in list(row)[5:] if row[name]}
            rows.setdefault((topology, link, nodes), {})[how] = figures
    return rows


def test_the_table_of_rounds_in_large_meshes_has_the_figures_that_were_kept() -> None:
    text = (ROOT / "docs" / "scale.md").read_text("utf-8")
    _, head, _, *rows = next(table for table in tables(text) if table[1][:3] == ["link", "nodes", "`mesh`"])
    assert len(rows) == 10
    for link, nodes, *cells in rows:
        for name, seconds, sent in zip(head[2::2], cells[::2], cells[1::2], strict=True):
            made = scale()[name.strip("`"), link.strip("`"), int(nodes)]
            simulated, _, least = seconds.partition(" / ")
            true = [(least, made["calculated"]["seconds"])]
            true.append((sent, made.get("simulated", made["calculated"])["mb_mean"]))
            if "simulated" in made:
                true.append((simulated, made["simulated"]["seconds"]))
            else:
                assert simulated == "-"
            for number, value in true:
                quoted = QUOTED.fullmatch(f"{number}<!-- = -->")
                assert quoted and says(quoted, value), f"{name}, {link}, {nodes}: {number} is {value}"
    assert "`ring` has the figures of `random:2`, to 0.1 %" in text
    for (topology, link, count), made in scale().items():
        for how, figures in made.items() if topology == "random:2" else ():
            ring = scale()["ring", link, count][how]
            assert all(ring[name] == pytest.approx(figures[name], rel=1e-3) for name in SCALE_MEANS)


def test_calculated_rounds_agree_with_simulated_ones_as_far_as_it_is_said() -> None:
    both = {case: made for case, made in scale().items() if len(made) == 2}
    ratios = {
        case: {name: made["simulated"][name] / made["calculated"][name] for name in SCALE_MEANS}
        for case, made in both.items()
    }
    longer = [ratio.pop("seconds") for (topology, *_), ratio in ratios.items() if topology == "segments:3"]
    for (topology, *_), ratio in ratios.items():
        if topology == "mesh":  # there, downloads wait for others
            del ratio["seconds"]
    assert all(abs(value - 1) < 0.005 for ratio in ratios.values() for value in ratio.values())
    text = " ".join((ROOT / "docs" / "scale.md").read_text("utf-8").split())
    assert f"takes {min(longer):.2f} to {max(longer):.2f} times as long" in text
    assert "agrees with the simulation to 0.5 % in seconds" in text


def test_what_a_node_sends_at_most_in_segments_is_what_was_kept() -> None:
    text = " ".join((ROOT / "docs" / "scale.md").read_text("utf-8").split())
    made = scale()["segments:3", "100mbit", 30]["simulated"]
    assert f"none sends more than {made['mb_out_most']:.0f} MB ({made['mb_mean']:.0f} in the mean)" in text
