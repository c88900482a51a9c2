"""Renders the reports in docs/results again from their means, and draws the kept plots.

    python docs/results.py           # after a change of published values, words or the rules of a report
    python docs/results.py --check   # only looks; tests/test_results.py does, too
    python docs/results.py --plots   # needs matplotlib, of the extra `experiments`

The single trainings of these reports are not kept, only their means (`table.csv`). So what follows from means is
rendered: text, tables, the comparison with published values. Rank tests, and what is missing, stay as they were.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from flnet.experiments.plan import Plan, find_plan, shipped
from flnet.experiments.plots import COLOURS, GREY, INK, save
from flnet.experiments.published import lines_of
from flnet.experiments.report import (
    CURVES,
    NODES,
    REPORT,
    TABLE,
    measure_section,
    published_section,
    read_table,
    write_table,
)
from flnet.experiments.statistics import TableEntry, groups_alike

ROOT = Path(__file__).resolve().parent
RESULTS = ROOT / "results"
COUNTED = re.compile(r"(?m)^(?:\d+ of \d+ trainings are done|Machine: |Data: ).*$")
KEPT = (  # sections that means do not give
    "Node by node",
    "Do the columns differ?",
    "By node",
    "Missing results",
    "Round by round",
    "Cost",
)
LONG = 30  # letters of a name from which on a legend has two columns


def kept_tables() -> dict[str, Plan]:
    """The plans that flnet ships and whose means are kept, by name."""
    return {name: find_plan(name) for name in shipped() if (RESULTS / name / TABLE).is_file()}


def rendered(plan: Plan, table: Sequence[TableEntry], old: str) -> str:
    """The report of these means, with what only single trainings give taken from the old report."""
    sections = dict(part.split("\n", 1) for part in re.split(r"(?m)^## ", old)[1:])
    lines = [f"# {plan.title}", f"\nCompared with: {plan.source}."]
    lines += [f"\n{line}" for line in COUNTED.findall(old)]
    lines.append(f"\n{plan.words.strip()}")
    for measure in plan.measures:
        lines += measure_section(plan, measure.name, table)
    lines += published_section(plan, table)
    lines += [f"\n## {name}\n{sections[name].rstrip()}" for name in KEPT if name in sections]
    return "\n".join(lines) + "\n"


def outdated(*, write: bool) -> list[Path]:
    """The reports that differ from what would be rendered; they are written if asked for."""
    found = []
    for name, plan in kept_tables().items():
        path = RESULTS / name / REPORT
        table, old = read_table(plan, RESULTS / name / TABLE), path.read_text("utf-8")
        new = rendered(plan, table, old)
        if new != old:
            found.append(path)
        if write:
            path.write_text(new, "utf-8")
            write_table(plan, table, RESULTS / name / TABLE)
    return found


# Plots.

Entries = dict[tuple[str, str, str], TableEntry]  # by row, column and measure


def means_of(name: str) -> Entries:
    """The kept means of a table."""
    return {(e.row, e.column, e.measure): e for e in read_table(find_plan(name), RESULTS / name / TABLE)}


def curves_of(name: str) -> dict[tuple[str, str], list[float]]:
    """The kept accuracies by round, means over nodes and seeds, by row and column."""
    seeds: dict[tuple[str, str], dict[int, list[float]]] = {}
    with (RESULTS / name / CURVES).open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            if line["figure"] == "after.accuracy":
                rounds = seeds.setdefault((line["row"], line["column"]), {})
                rounds.setdefault(int(line["round"]), []).append(float(line["mean"]))
    return {place: [fmean(rounds[number]) for number in sorted(rounds)] for place, rounds in seeds.items()}


def _dots(axes: Any, places: Sequence[float], entries: Sequence[TableEntry], colour: str, label: str) -> None:
    """Means with their standard deviations over seeds, if there are several."""
    means = [entry.mean for entry in entries]
    spreads = [entry.spread or 0.0 for entry in entries]
    axes.errorbar(places, means, spreads, fmt="o", color=colour, ms=7, lw=1.5, capsize=3, label=label)


def draw_mesh(axes: Any) -> None:
    """Nodes that average, and the same nodes alone, on three data sets."""
    kept = means_of("thesis-annex-1")
    rows = ["MNIST 3/7, flnet's settings", "chest X-ray, flnet's settings", "CIFAR-10, flnet's settings"]
    names = [
        "a 3 or a 7?\n10 nodes",
        "pneumonia on an X-ray?\n10 nodes",
        "which of 10 things\non a photograph?\n8 nodes",
    ]
    for shift, column, label, colour in (
        (-0.1, "alone", "each node alone", GREY),
        (0.1, "federated", "nodes that average", COLOURS[0]),
    ):
        _dots(
            axes, [at + shift for at in range(3)], [kept[row, column, "accuracy"] for row in rows], colour, label
        )
    axes.set_xticks(range(3), names)
    axes.set_xlim(-0.5, 2.5)
    axes.set_ylabel("share of test pictures that are right")


def draw_schools(axes: Any) -> None:
    """Accuracy by the share of schools that train in a round."""
    kept = means_of("dropout")
    shares = {"C = 2 %": 2, "C = 13 %": 13, "C = 25 %": 25, "C = 50 %": 50, "C = 100 %": 100}
    lines = {
        "54 schools of 1000, R = 10, E = 2": "schools alike",
        "39 courses, R = 10, E = 2": "courses",
        "54 unlike schools, R = 10, E = 2": "schools that differ much",
        "54 unlike schools, R = 20, E = 1, FedProx": "schools that differ much, held near the average (FedProx)",
    }
    for number, (row, label) in enumerate(lines.items()):
        measure = "own test rows" if row.startswith("54 schools") else "all test rows"
        means = [kept[row, column, measure].mean for column in shares]
        axes.plot(range(len(shares)), means, marker="o", color=COLOURS[number], label=label)
    central = kept["54 schools of 1000, R = 10, E = 2", "central", "own test rows"].mean
    axes.axhline(central, color=INK, ls="--", lw=1, label="all rows in one place")
    axes.set_xticks(range(len(shares)), [f"{share} %" for share in shares.values()])
    axes.set_xlabel("schools that train in a round")
    axes.set_ylabel("share of students judged rightly")


def draw_agreement(axes: Any) -> None:
    """Published means against ours, one dot for each cell."""
    kept = means_of("mlfedavg")
    tolerance = find_plan("mlfedavg").tolerance
    compared = [entry for entry in kept.values() if entry.difference is not None and entry.published]
    for near, colour, label in ((True, COLOURS[0], "within two standard errors"), (False, COLOURS[1], "farther")):
        shown = [entry for entry in compared if entry.is_near(tolerance) == near]
        theirs = [entry.published.value.low for entry in shown if entry.published]
        marker = "o" if near else "^"
        ours = [entry.mean for entry in shown]
        axes.plot(
            theirs, ours, marker, color=colour, ms=4, alpha=0.8, label=f"{label} ({len(shown)} of {len(compared)})"
        )
    axes.plot([0, 0.85], [0, 0.85], color=GREY, lw=1, label="equal")
    axes.set_xlabel("published")
    axes.set_ylabel("measured here")


RANKED = re.compile(
    r"(?m)^\| (?P<measure>\S+) \| (?P<ranks>agg0 [^|]*) \| \d+ \| \S+ \| \S+ \| (?P<distance>\S+) \|"
)


def draw_ranks(axes: Any) -> None:
    """Mean ranks of three rules by four measures, ours with a bar over rules that do not differ (Demšar 2006, figure 1)."""
    theirs = {line.measure: line.value.low for line in lines_of("delgado2024")}
    tests = list(RANKED.finditer((RESULTS / "mlfedavg" / REPORT).read_text("utf-8")))
    for level, test in enumerate(reversed(tests)):
        ranks = {name: float(rank) for name, rank in (part.split() for part in test["ranks"].split(", "))}
        for number, (name, rank) in enumerate(ranks.items()):
            axes.plot(rank, level, "os^"[number], color=COLOURS[number], ms=8, label="" if level else name)
            if (published := theirs.get(f"{test['measure']}: mean rank of {name}")) is not None:
                axes.plot(published, level + 0.25, "os^"[number], color=COLOURS[number], mfc="none")
        values = list(ranks.values())
        for group in groups_alike(values, float(test["distance"])):
            axes.plot([values[group[0]], values[group[-1]]], [level - 0.25] * 2, color=INK, lw=4)
    distance = float(tests[0]["distance"])
    axes.plot([1.5, 1.5 + distance], [len(tests) - 0.4] * 2, color=GREY, lw=2, marker="|")
    axes.text(1.5, len(tests) - 0.2, f"critical difference {distance:.3f}")
    axes.set_yticks(range(len(tests)), [test["measure"] for test in reversed(tests)])
    axes.set_ylim(-0.6, len(tests) + 0.2)
    axes.set_xlabel("mean rank (1 is the best), ours filled; a bar connects rules that do not differ here")


def draw_labels(axes: Any) -> None:
    """Few fine labels on one node, with and without the coarse labels of four others."""
    columns = {
        "coarse only": ("nobody has fine labels", GREY),
        "fine alone": ("the node with fine labels alone", COLOURS[1]),
        "known": ("all together, correspondence known", COLOURS[0]),
        "estimated": ("all together, correspondence estimated", COLOURS[5]),
        "all fine": ("everybody has fine labels", COLOURS[2]),
    }
    places = {
        "digits, 108 fine labels": ("fedmt-mnist", "108 fine labels", "single digits, mean of the nodes"),
        "X-rays like the nodes' own,\n90 fine labels": ("fedmt-chest", "90 fine labels", "own test rows"),
        "X-rays from elsewhere,\n90 fine labels": ("fedmt-chest", "90 fine labels", "published test part"),
    }
    for at, (table, row, measure) in enumerate(places.values()):
        kept = means_of(table)
        for number, (column, (label, colour)) in enumerate(columns.items()):
            place = at + 0.12 * (number - 2)
            _dots(axes, [place], [kept[row, column, measure]], colour, "" if at else label)
    axes.set_xticks(range(len(places)), places)
    axes.set_xlim(-0.5, len(places) - 0.5)
    axes.set_ylabel("accuracy in fine classes (X-rays: balanced)")


def draw_hostile(axes: Any) -> None:
    """What one hostile node of five leaves under three rules."""
    kept = means_of("guard-unknown")
    attacks = {
        "no attack": "no attack",
        "sign-flip:5": "learns\nbackwards",
        "label-flip": "random\nlabels",
        "noise:5": "noise",
        "replacement": "another\nmodel",
        "two-faced:5": "two\nfaces",
    }
    rules = {
        "agg1": ("plain mean", GREY),
        "median": ("median", COLOURS[1]),
        "consistency:bounded": ("consistency:bounded", COLOURS[0]),
    }
    for number, (rule, (label, colour)) in enumerate(rules.items()):
        entries = [kept[attack, rule, "accuracy"] for attack in attacks]
        _dots(axes, [at + 0.16 * (number - 1) for at in range(len(attacks))], entries, colour, label)
    axes.set_xticks(range(len(attacks)), list(attacks.values()))
    axes.set_ylabel("share of test digits that are right")


def draw_central(axes: Any) -> None:
    """Accuracy on CIFAR-10 by passes over the data, central and federated, with what was published at the end."""
    plan, curves = find_plan("central-or-federated"), curves_of("central-or-federated")
    published = {(value.row, value.column): value.value.low for value in plan.published}
    epochs = {row.name: row.says["epochs"] for row in plan.rows if row.name.startswith("CIFAR-10")}
    central = [(row, column) for row, column in curves if row in epochs and column == "central"][:1]
    shown = dict.fromkeys(central, "all rows in one place")
    shown |= {(row, "federated"): row.removeprefix("CIFAR-10, ") for row in epochs if (row, "federated") in curves}
    for number, ((row, column), label) in enumerate(shown.items()):
        course, colour = curves[row, column], INK if column == "central" else COLOURS[number]
        passes = [epochs[row] * (at + 1) for at in range(len(course))]
        axes.plot(passes, course, color=colour, ls="--" if column == "central" else "-", label=label)
        axes.plot(passes[-1] + 1 + 0.5 * number, published[row, column], "o", mfc="none", color=colour)
    axes.set_xlabel("passes over the rows of those that train; circles are published")
    axes.set_ylabel("share of test photographs that are right")


def draw_rounds(axes: Any) -> None:
    """Accuracy by rounds of 14 of 54 schools, with the last accuracy of central training."""
    curves = curves_of("rounds-to-central")
    for number, (row, column) in enumerate(place for place in curves if place[1] == "federated"):
        course = curves[row, column]
        label = f"14 schools a round, {row.rpartition(', ')[2]}"
        axes.plot(range(1, len(course) + 1), course, color=COLOURS[number], label=label)
        central = curves[row, "central"][-1]
    axes.axhline(central, color=INK, ls="--", lw=1, label="all rows in one place, 20 passes")
    axes.set_xlabel("rounds")
    axes.set_ylabel("share of students judged rightly")


# Plots of single nodes: FLProtector on four domains, and under attack.

FOUR = {"mnist": "MNIST", "mnist-m": "MNIST-M", "usps": "USPS", "svhn": "SVHN"}  # in the order of the nodes
OWN_DOMAINS, ATTACKED = "one domain each", "four MNIST, one SVHN: sign-flip:5"
WEIGHTS = {"FLProtector": ("repaired", "-"), "FLProtector, printed weights": ("as printed", ":")}
Courses = dict[tuple[str, str, str, int], list[float]]  # by row, column, figure and node: values by round


def nodes_of(name: str) -> Courses:
    """The kept figures of single nodes."""
    courses: Courses = {}
    with (RESULTS / name / NODES).open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            place = (line["row"], line["column"], line["figure"], int(line["node"]))
            courses.setdefault(place, []).append(float(line["mean"]))
    return courses


def draw_trust(axes: Any) -> None:
    """The share of the average that each of four honest nodes has, by round."""
    kept = nodes_of("guard-5b")
    for column, (form, dashes) in WEIGHTS.items():
        for node, domain in enumerate(FOUR.values()):
            shares = kept[OWN_DOMAINS, column, "after.weight", node + 1]
            axes.plot(range(1, len(shares) + 1), shares, dashes, color=COLOURS[node], label=f"{domain}, {form}")
    axes.set_xlabel("round")
    axes.set_xticks(range(2, len(shares) + 1, 2))
    axes.set_ylabel("share of the average")
    axes.set_ylim(0, None)


def draw_trust_attacked(axes: Any) -> None:
    """The same with a node that flips the signs of its updates: the attacker, an honest node like it, and the outlier."""
    kept = nodes_of("guard-ablation")
    for column, (form, dashes) in WEIGHTS.items():
        lines = {
            "hostile node": kept[ATTACKED, column, "after.hostile_weight", 1],
            "honest node like it (MNIST)": kept[ATTACKED, column, "after.weight", 2],
            "honest outlier (SVHN)": kept[ATTACKED, column, "after.weight", 1],
        }
        for number, (name, shares) in enumerate(lines.items()):
            colour = COLOURS[(1, 0, 2)[number]]
            axes.plot(range(1, len(shares) + 1), shares, dashes, color=colour, label=f"{name}, {form}")
    axes.set_xlabel("round")
    axes.set_ylabel("share of the average")
    axes.set_ylim(0, None)


def draw_selector(axes: Any) -> None:
    """For each node, which share of each domain's test digits it takes for its own."""
    _draw_matrix(
        axes, "after.answered_locally", 100, "{:.0f} %", "share of test digits that the node's own model answers"
    )


def draw_reconstruction(axes: Any) -> None:
    """For each node, the error with which its autoencoder reconstructs each domain's test digits."""
    _draw_matrix(
        axes, "after.reconstruction_error", 100, "{:.2f}", "mean squared error on test digits, in hundredths"
    )


def _draw_matrix(axes: Any, figure: str, scale: float, form: str, words: str) -> None:
    """A figure of each node (rows) on each domain (columns)."""
    kept = nodes_of("guard-5b")
    numbers = range(1, len(FOUR) + 1)
    values = [[scale * kept[OWN_DOMAINS, "FLProtector", f"{figure}_{d}", n][-1] for d in FOUR] for n in numbers]
    shown = axes.imshow(values, cmap="Blues", vmin=0, aspect="auto")
    middle = shown.norm.vmax / 2
    for row, line in enumerate(values):
        for column, value in enumerate(line):
            colour = "white" if value > middle else INK
            axes.text(column, row, form.format(value), ha="center", va="center", color=colour)
    axes.set_xticks(range(len(FOUR)), [f"digits of {name}" for name in FOUR.values()])
    axes.set_yticks(range(len(FOUR)), [f"node of {name}" for name in FOUR.values()])
    axes.set_xlabel(words)
    axes.grid(visible=False)


def draw_thresholds(axes: Any) -> None:
    """The error up to which a node's own model answers, with the published ones."""
    kept = nodes_of("guard-5b")
    theirs = {line.measure: line.value.low for line in lines_of("martinez")}
    ours = [
        kept[OWN_DOMAINS, "FLProtector", "after.reconstruction_threshold", n + 1][-1] for n in range(len(FOUR))
    ]
    published = [theirs[f"threshold, {name}"] for name in FOUR.values()]
    for shift, values, colour, label in (
        (-0.2, ours, COLOURS[0], "measured here"),
        (0.2, published, GREY, "published"),
    ):
        bars = axes.bar([at + shift for at in range(len(FOUR))], values, 0.38, color=colour, label=label)
        axes.bar_label(bars, fmt="%.3f")
    axes.set_xticks(range(len(FOUR)), FOUR.values())
    axes.set_ylabel("threshold of the mean squared error")


PLOTS: dict[str, tuple[str, Callable[[Any], None]]] = {
    "mesh-or-alone": ("Nodes that average are as good as each alone, or better", draw_mesh),
    "schools": ("Who drops out of a course? Few schools a round are enough, if they are alike", draw_schools),
    "published-and-measured": ("MLFedAvg: 128 published means and ours", draw_agreement),
    "mlfedavg/ranks": ("MLFedAvg: which aggregation rules differ, by four measures", draw_ranks),
    "fine-and-coarse-labels": (
        "Coarse labels of others help a node with few fine ones, on data like theirs",
        draw_labels,
    ),
    "rounds-to-central/accuracy": (
        "Who drops out? After how many rounds schools are as good as one place",
        draw_rounds,
    ),
    "central-or-federated/accuracy": (
        "CIFAR-10: how accuracy rises with the passes over the photographs",
        draw_central,
    ),
    "one-hostile-node": ("One hostile node of five: the mean can fail, other rules lose less", draw_hostile),
    "guard-5b/trust": ("How much each honest node counts, round by round", draw_trust),
    "guard-5b/selector": ("Which digits each node takes for its own", draw_selector),
    "guard-5b/thresholds": ("Up to which error a node takes a digit for its own", draw_thresholds),
    "guard-5b/reconstruction": ("How well each node's autoencoder reconstructs each domain", draw_reconstruction),
    "guard-ablation/trust": ("A five-fold sign flip: how much each node counts", draw_trust_attacked),
}


def draw_plots() -> Iterator[Path]:
    """Draw all plots of README.md and of documents about single tables.

    Raises:
        NotOffered: matplotlib is not installed.
    """
    for name, (title, draw) in PLOTS.items():
        path = RESULTS / f"{name}.svg"
        save(title, partial(_with_legend, draw), [path])
        yield path


def _with_legend(draw: Callable[[Any], None], axes: Any) -> None:
    draw(axes)
    _, labels = axes.get_legend_handles_labels()
    if not labels:
        return
    axes.figure.legend(loc="outside lower center", ncols=3 if max(map(len, labels)) <= LONG else 2)


def main(arguments: Sequence[str]) -> int:
    """Do what the arguments say, and return the exit code."""
    if "--plots" in arguments:
        for path in draw_plots():
            print(path.relative_to(ROOT))
        return 0
    found = outdated(write="--check" not in arguments)
    for path in found:
        print(path.relative_to(ROOT))
    return 1 if found and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
