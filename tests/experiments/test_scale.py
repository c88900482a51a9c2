"""What a round takes by calculation agrees with simulated rounds, and the report is written from both."""

from __future__ import annotations

from pathlib import Path

import pytest

from flnet.errors import NotOffered
from flnet.experiments import scale_report
from flnet.experiments.scale import Case, agreement, calculated, messages, simulated
from flnet.simulation.scale import IN_VAIN, RoundFigures

pytest.importorskip("matplotlib")
FIGURES = RoundFigures(
    5.0, 3_000_000, 2_000_000, 20, {"parameters": (3.0, 2_000_000.0), "/training": (0.75, 600.0)}
)


@pytest.mark.parametrize("link", ["dsl", "wifi"])
@pytest.mark.parametrize("topology", ["mesh", "segments"])
def test_what_is_calculated_is_what_is_simulated_where_no_download_waits_for_another(
    topology: str, link: str
) -> None:
    seconds, passed, requests = agreement(Case(topology, link, 6))
    assert seconds == pytest.approx(1.0, abs=0.03)
    assert passed == pytest.approx(1.0, abs=0.01)
    assert requests == pytest.approx(1.0, abs=0.01)


@pytest.mark.long
@pytest.mark.parametrize("topology", ["mesh", "segments"])
def test_so_it_is_in_larger_meshes(topology: str) -> None:
    seconds, passed, requests = agreement(Case(topology, "dsl", 30))
    assert seconds == pytest.approx(1.0, abs=0.03)
    assert passed == pytest.approx(1.0, abs=0.01)
    assert requests == pytest.approx(1.0, abs=0.01)


def test_a_mesh_takes_at_least_what_its_updates_take() -> None:
    figures = calculated(Case("mesh", "100mbit", 1000))
    updates = 999 * 40_000_000
    downloads, passed = figures.kinds["parameters"]
    assert downloads == pytest.approx(999) and passed == pytest.approx(updates, rel=0.001)
    assert figures.seconds == pytest.approx(updates * 8 * 1538 / 1448 / 1e8, rel=0.01)


def test_segments_take_two_models_however_many_nodes_there_are_but_for_messages() -> None:
    for nodes in (100, 1000):
        figures = calculated(Case("segments", "100mbit", nodes))
        said = messages("segments", nodes)["/training/segments sum"][1]  # of results, beside the segments
        brought = figures.kinds["parameters"][1] + figures.kinds["/training/segments sum"][1] - said
        assert brought == pytest.approx(2 * 40_000_000, rel=0.06)
    # Each member tells all others of a set of all, so the messages of a node grow with the square of the mesh.
    sizes = [messages("segments", nodes)["/training/segments accept"][1] for nodes in (100, 200)]
    assert sizes[1] / sizes[0] == pytest.approx(4.0, rel=0.15)


@pytest.mark.parametrize(
    ("topology", "nodes"),
    [
        *(("segments", 4), ("segments", 8), ("segments:3", 4), ("segments:3", 8)),
        *(
            pytest.param(topology, nodes, marks=pytest.mark.long)
            for topology in ("segments", "segments:3")
            for nodes in (16, 30)
        ),
    ],
)
def test_a_node_makes_at_most_six_requests_for_each_owner_and_four_more(topology: str, nodes: int) -> None:
    figures = simulated(Case(topology, "lan", nodes))
    assert figures.requests <= 6 * (nodes + 4)
    if topology == "segments":  # however many nodes there are
        assert figures.requests == 6 * (nodes - 1)


@pytest.mark.parametrize("nodes", [4, 8, *(pytest.param(nodes, marks=pytest.mark.long) for nodes in (16, 30))])
def test_three_owners_cost_no_message_more_and_only_the_downloads_of_the_average(nodes: int) -> None:
    figures, single = (simulated(Case(topology, "lan", nodes)) for topology in ("segments:3", "segments"))
    others = nodes - 1
    for kind in ("/training/segments accept", "/training/segments sum"):
        assert figures.kinds[kind][0] == single.kinds[kind][0] == others
    # The three segments of an update in one request, and those of the average that it does not own; none is asked for in
    # vain. With one owner, these come with their result.
    assert figures.kinds["parameters"][0] == others + nodes - 3
    assert single.kinds["parameters"][0] == others
    assert IN_VAIN not in figures.kinds
    assert figures.requests == 7 * nodes - 9


def test_the_report_has_what_was_simulated_before_and_simulates_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulations: list[Case] = []

    def simulate(case: Case) -> RoundFigures:
        simulations.append(case)
        return FIGURES

    monkeypatch.setattr(scale_report, "simulated", simulate)
    monkeypatch.setattr(scale_report, "TOPOLOGIES", ("mesh", "segments"))
    lines: list[str] = []
    scale_report.main(tmp_path, lines.append, quick=True)
    first, text = list(simulations), "\n".join(lines)
    assert {case.nodes for case in first} == {10} and len(first) == 8
    assert "| dsl | 10 | 5 / " in text and "| dsl | 1000 | - / " in text and "share of all bytes" in text
    with (tmp_path / "rounds.jsonl").open("r+", encoding="utf-8") as results:
        rows = results.read().splitlines()
        results.seek(0)
        results.write("\n".join(rows[:-1]) + "\n" + rows[-1][:20])  # as after a kill
        results.truncate()
    pictures = [(tmp_path / name).stat().st_size for name in scale_report.PICTURES.values()]
    assert all(size > 1000 for size in pictures)
    monkeypatch.setattr(scale_report, "save", lambda *args: None)
    scale_report.main(tmp_path, lines.append, quick=True)
    assert simulations[8:] == [first[-1]]
    table = (tmp_path / "table.csv").read_text("utf-8").splitlines()
    assert table[0].startswith("topology,link,nodes") and len(table) == 1 + 4 * 2 * 5 + 8


def test_without_matplotlib_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise NotOffered("plots need matplotlib")

    monkeypatch.setattr(scale_report, "simulated", lambda case: FIGURES)
    monkeypatch.setattr(scale_report, "TOPOLOGIES", ("mesh", "segments"))
    monkeypatch.setattr("flnet.experiments.plots._matplotlib", missing)
    lines: list[str] = []
    with pytest.raises(NotOffered):
        scale_report.main(tmp_path, lines.append, quick=True)
    assert any(line.startswith("| dsl | 1000") for line in lines)
