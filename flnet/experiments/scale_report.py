"""Tables and pictures of `flnet.experiments.scale`, from the cases that have been simulated and what is calculated."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import Any

from flnet.experiments.plots import save
from flnet.experiments.scale import MODEL_BYTES, Case, calculated, messages, simulated
from flnet.simulation.links import LINKS
from flnet.simulation.network import FETCHED
from flnet.simulation.scale import RoundFigures

TITLE = "Rounds of ten to a thousand nodes, by how updates travel"
TOPOLOGIES = ("mesh", "segments", "segments:3", "random:2", "ring")
SIZES = (10, 30, 100, 300, 1000)
LARGEST, LARGEST_LINK = 100, "100mbit"  # of the largest simulated meshes; segments would take many minutes there
SIMULATED, QUICK = 30, 10
RESULTS, TABLE = "rounds.jsonl", "table.csv"
PICTURES = {"100mbit": "seconds-100mbit.png", "dsl": "seconds-dsl.png"}
Write = Callable[[str], object]
Known = Mapping[str, RoundFigures]


def main(folder: Path, write: Write, *, quick: bool = False) -> None:
    """Simulate what is not simulated yet, and write everything.

    Args:
        folder: for results, the table as CSV, and pictures; exists. Cases that are in its results are not simulated again.
        write: gets line after line of the report.
        quick: only the smallest meshes.

    Raises:
        NotOffered: matplotlib is not installed.
    """
    cases = [Case(topology, link, nodes) for link in LINKS for topology in TOPOLOGIES for nodes in SIZES]
    known = _simulate([case for case in cases if is_simulated(case, quick=quick)], folder / RESULTS)
    for line in (*_head(), *_seconds_table(cases, known), *_kinds_table(known)):
        write(line)
    for link, name in PICTURES.items():
        title = f"A round with {MODEL_BYTES / 1e6:g} MB, links as {link}"
        save(title, partial(_draw, link=link, known=known), [folder / name])
        write(f"![{title}]({name})")
    _write_csv(folder / TABLE, cases, known)


def is_simulated(case: Case, *, quick: bool = False) -> bool:
    """Whether a case is simulated, and not only calculated."""
    if quick:
        return case.nodes <= QUICK
    is_large = case.link == LARGEST_LINK and not case.topology.startswith("segments")
    return case.nodes <= (LARGEST if is_large else SIMULATED)


def _simulate(cases: Sequence[Case], path: Path) -> Known:
    """Figures by the key of their case; each is written to the file as soon as it is known."""
    known = _read(path)
    with path.open("a", encoding="utf-8") as results:
        results.write("\n")  # the last line may be half a line
        for case in sorted(cases, key=lambda case: case.nodes):
            if case.key not in known:
                known[case.key] = simulated(case)
                results.write(json.dumps({"case": case.key, **known[case.key]._asdict()}) + "\n")
                results.flush()
    return known


def _read(path: Path) -> dict[str, RoundFigures]:
    known = {}
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
            key = row.pop("case")
            known[key] = RoundFigures(**row)
        except (ValueError, TypeError, KeyError):
            continue  # the end of a run that was killed
    return known


def _head() -> Sequence[str]:
    size = f"A model of {MODEL_BYTES / 1e6:g} MB in float32; all nodes have the same link, and train in no time."
    words = "Seconds: as simulated / at least. MB: what a node sends in a round, in the mean."
    return (f"{size} {words} Requests: messages of a node, and downloads that it asks for, in the mean.", "")


def _seconds_table(cases: Sequence[Case], known: Known) -> Sequence[str]:
    lines = ["| link | nodes | " + " | ".join(f"{name}: seconds | MB | requests" for name in TOPOLOGIES) + " |"]
    lines.append("| --- | --- |" + " --- |" * 3 * len(TOPOLOGIES))
    for link in LINKS:
        for nodes in SIZES:
            cells = [link, str(nodes)]
            for case in (Case(topology, link, nodes) for topology in TOPOLOGIES):
                made, least = known.get(case.key), calculated(case)
                requests, passed = _sums(made or least)
                cells.append(f"{_brief(made.seconds) if made else '-'} / {_brief(least.seconds)}")
                cells += [_brief(passed / 1e6), _brief(requests)]
            lines.append("| " + " | ".join(cells) + " |")
    return (*lines, "")


def _kinds_table(known: Known) -> Sequence[str]:
    """What the messages of a round take besides the parameters."""
    lines = ["kB of a node and a round, and requests, by kind of message:", ""]
    columns = [(nodes, topology) for topology in TOPOLOGIES[:2] for nodes in SIZES[2:]]
    lines += ["| kind | " + " | ".join(f"{topology}, {nodes} nodes" for nodes, topology in columns) + " |"]
    lines += ["| --- |" + " --- |" * len(columns)]
    made = [messages(topology, nodes) for nodes, topology in columns]
    whole = [calculated(Case(topology, LARGEST_LINK, nodes)).kinds for nodes, topology in columns]
    for kind in sorted({kind for kinds in made for kind in kinds} - {FETCHED}):
        cells = [
            f"{_brief(each[kind][1] / 1e3)} ({_brief(each[kind][0])})" if kind in each else "-" for each in made
        ]
        lines.append(f"| {kind} | " + " | ".join(cells) + " |")
    sums = [sum(passed for kind, (_, passed) in kinds.items() if kind != FETCHED) for kinds in made]
    lines.append("| sum, MB | " + " | ".join(_brief(each / 1e6) for each in sums) + " |")
    shares = [each / sum(passed for _, passed in kinds.values()) for each, kinds in zip(sums, whole, strict=True)]
    lines.append("| share of all bytes | " + " | ".join(f"{100 * share:.2g} %" for share in shares) + " |")
    return (*lines, "")


def _sums(figures: RoundFigures) -> tuple[float, float]:
    """Requests and bytes of a node, in the mean of all nodes."""
    return sum(count for count, _ in figures.kinds.values()), sum(passed for _, passed in figures.kinds.values())


def _brief(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _draw(axes: Any, link: str, known: Known) -> None:
    for number, topology in enumerate(TOPOLOGIES):
        cases = [Case(topology, link, nodes) for nodes in SIZES]
        least = [calculated(case).seconds for case in cases]
        axes.plot(SIZES, least, "--" if topology == "ring" else "-", c=f"C{number}", label=topology)
        made = [(case.nodes, known[case.key].seconds) for case in cases if case.key in known]
        if made:
            axes.plot(*zip(*made, strict=True), "o:", c=f"C{number}")
    axes.set(xscale="log", yscale="log", xlabel="nodes", ylabel="seconds: at least (lines), simulated (dots)")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xticks(SIZES, list(map(str, SIZES)))
    axes.legend()


def _write_csv(path: Path, cases: Sequence[Case], known: Known) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        names = ("topology", "link", "nodes", "model_bytes", "how", "seconds", "mb_mean", "requests_mean")
        table.writerow((*names, "mb_out_most", "mb_in_most", "requests_most"))
        for case in cases:
            for how, figures in (("simulated", known.get(case.key)), ("calculated", calculated(case))):
                if figures is not None:
                    requests, passed = _sums(figures)
                    mean = (f"{figures.seconds:.3f}", f"{passed / 1e6:.3f}", f"{requests:.1f}")
                    most = (f"{figures.bytes_out / 1e6:.3f}", f"{figures.bytes_in / 1e6:.3f}", figures.requests)
                    table.writerow((*astuple(case), how, *mean, *(most if how == "simulated" else ("", "", ""))))
