"""What an attacker sees under each mechanism, and what it finds there; the report on generated digits."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from flnet.algorithms.differential_privacy import Privacy
from flnet.datasets.labelled import Labelled, read_idx
from flnet.datasets.samples import write_digits
from flnet.experiments import leak, leak_report
from flnet.experiments.leak import (
    MECHANISMS,
    NODES,
    Mechanism,
    MeshRows,
    Scale,
    attack_by_inversion,
    attack_by_membership,
    deal_rows,
    guess_without_update,
    mean_of,
    multiplier,
    row_privacy,
    run_mesh,
    scaled,
    sent,
)
from flnet.experiments.sigmoid_network import NAMES, initial
from flnet.settings import Settings
from flnet.trainer import RowPrivacy

PLAIN, SUM = Mechanism("plain"), Mechanism("sum", 4)
NODE, ROWS = Mechanism("node", 0, Privacy("node", 3, 1e-5)), Mechanism("rows", 0, Privacy("rows", 3, 1e-5))
SMALL = Scale(rows=20, rounds=2, epochs=30, batch=10, hidden=16, shadows=1)


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Labelled:
    folder = tmp_path_factory.mktemp("digits")
    write_digits(folder, train=900, test=1)
    files = (folder / f"train-{name}-ubyte.gz" for name in ("images-idx3", "labels-idx1"))
    return Labelled(*map(read_idx, files))


@pytest.fixture(scope="module")
def unlearnable(digits: Labelled) -> Labelled:
    """The same images with labels by chance: what a model says of them it can only have remembered."""
    return Labelled(digits.x, np.random.default_rng(0).integers(0, 10, len(digits)).astype(np.uint8))


def norms(models: Sequence[dict[str, np.ndarray]], base: dict[str, np.ndarray]) -> list[float]:
    return [float(np.sqrt(sum(((model[n] - base[n]) ** 2).sum() for n in NAMES))) for model in models]


def test_no_row_is_dealt_twice(digits: Labelled) -> None:
    meshes = deal_rows(digits, 3, SMALL)
    rows = [row.tobytes() for mesh in meshes for part in (*mesh.parts, *mesh.others) for row in part.x]
    assert len(rows) == len(set(rows)) == 2 * 2 * NODES * 20
    assert len(deal_rows(digits, 3, Scale(rows=10**6, shadows=1))[0].parts[0]) == 900 // 40
    with pytest.raises(ValueError, match="900 rows; expected at least 1020"):
        deal_rows(digits, 3, Scale(shadows=50))


def test_of_a_sum_the_attacker_sees_the_mean_alone(digits: Labelled) -> None:
    parts = deal_rows(digits, 0, SMALL)[0].parts
    plain = run_mesh(PLAIN, parts[:4], SMALL, np.random.default_rng(0))
    summed = run_mesh(SUM, parts, SMALL, np.random.default_rng(0))
    assert len({seen.model["hidden.bias"].tobytes() for seen in plain.seen}) == 4
    assert {seen.model["hidden.bias"].tobytes() for seen in summed.seen} == {
        summed.common["hidden.bias"].tobytes()
    }
    for name in NAMES:  # to the bound of fixed-point numbers: 8 * 4 / 2^31 a round
        assert summed.common[name] == pytest.approx(plain.common[name], abs=1e-6)
    assert [len(seen.rows) for seen in summed.seen] == [20] * 4


def test_noise_is_that_of_the_accountant_over_all_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[float, ...]] = []

    def counted(*schedule: float) -> float:
        asked.append(schedule)
        return 7.0

    monkeypatch.setattr(leak, "multiplier_for", counted)
    scale = Scale(rounds=17)
    assert [multiplier(one, 300, scale) for one in (PLAIN, NODE, ROWS)] == [0, 7, 7]
    # A node is in every round, a row in each batch by chance.
    assert asked == [(3, 1e-5, 17, 1.0, 1), (3, 1e-5, 17, 0.1, 100)]
    assert row_privacy(PLAIN, 0.0) is row_privacy(NODE, 2.0) is None
    assert row_privacy(ROWS, 2.0) == RowPrivacy(2.0, 1.0)


def test_what_leaves_a_node_is_clipped_and_has_noise() -> None:
    base = dict(initial(0, 784, 16, 10))
    far = {name: array + 5.0 for name, array in base.items()}
    chance = np.random.default_rng(0)
    size = sum(array.size for array in base.values())
    assert sent(ROWS, base, far, 2.0, chance) is far
    (alone,) = norms([dict(sent(NODE, base, far, 2.0, chance))], base)
    assert alone == pytest.approx(2 * size**0.5, rel=0.05)
    together = Mechanism("sum", 4, NODE.privacy)
    (part,) = norms([dict(sent(together, base, far, 2.0, chance))], base)
    assert part == pytest.approx(size**0.5, rel=0.05)  # a quarter of the variance each
    quiet = norms([dict(sent(NODE, base, far, 1e-6, chance))], base)
    assert quiet == pytest.approx([1.0], rel=1e-3)


def test_the_mean_is_that_of_equal_weights() -> None:
    base = initial(0, 784, 16, 10)
    updates = [initial(seed, 784, 16, 10) for seed in range(1, 5)]
    plain, summed = mean_of(PLAIN, base, updates), mean_of(SUM, base, updates)
    for name in NAMES:
        assert summed[name] == pytest.approx(plain[name], abs=1e-7)


def test_what_was_remembered_is_seen_in_updates_and_less_in_sums(
    unlearnable: Labelled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leak, "multiplier", lambda mechanism, rows, scale: 8.0 if mechanism is ROWS else 0.0)
    meshes, tests = deal_rows(unlearnable, 0, SMALL), scaled(unlearnable)
    plain, summed, hidden = (attack_by_membership(one, meshes, tests, SMALL, 0) for one in (PLAIN, SUM, ROWS))
    assert plain.advantage > 0.9
    assert plain.by_mean > 0.5
    assert plain.shadow > 0.6
    assert plain.auc > 0.9
    assert summed.auc < plain.auc
    assert abs(hidden.by_mean) < 0.25
    assert abs(hidden.auc - 0.5) < 0.15


def parts_of(mesh: MeshRows, count: int) -> list[Labelled]:
    return [part.take(np.arange(count)) for part in mesh.parts]


def test_one_step_gives_images_away_unless_there_is_noise(digits: Labelled) -> None:
    meshes = deal_rows(digits, 1, SMALL)
    known = meshes[1].parts[0]
    plain = attack_by_inversion(PLAIN, parts_of(meshes[0], 1), known, 0.0, SMALL, 0)
    assert plain.closed == pytest.approx(1)
    assert plain.ssim == pytest.approx(1, abs=1e-3)
    assert plain.labels == 1
    summed = attack_by_inversion(SUM, parts_of(meshes[0], 1), known, 0.0, SMALL, 0)
    assert summed.closed < 0.9  # a mixture of four
    assert summed.ssim > 0.8  # but the four are told apart
    for mechanism in (NODE, ROWS):
        hidden = attack_by_inversion(mechanism, parts_of(meshes[0], 1), known, 1.0, SMALL, 0)
        without = guess_without_update(meshes[0].parts[0].take(np.arange(1)), scaled(digits))
        assert hidden.ssim < without.ssim


def test_the_report_has_a_row_for_each_mechanism(
    digits: Labelled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = leak_report.AttackedRows(digits, Labelled(digits.x[:50], digits.y[:50]), "generated digits")
    monkeypatch.setattr(leak_report, "_read_rows", lambda settings: rows)
    monkeypatch.setattr(leak_report, "MECHANISMS", (PLAIN, NODE))
    monkeypatch.setattr(leak_report, "DRAWN", 900)
    lines: list[str] = []
    leak_report.main(Settings(), tmp_path, lines.append, seeds=2, quick=True)
    assert sum(line.startswith("| plain |") for line in lines) == 3
    assert sum(line.startswith("| node |") for line in lines) == 3
    assert sum(line.startswith("| no update, labels known |") for line in lines) == 1
    assert any("generated digits" in line and "2 seeds" in line for line in lines)
    assert (tmp_path / "recovered.png").read_bytes()[:4] == b"\x89PNG"
    with (tmp_path / "table.csv").open(encoding="utf-8") as file:
        values = list(csv.DictReader(file))
    assert {(row["mechanism"], row["figure"], row["seed"]) for row in values} >= {
        ("plain", "advantage", "1"),
        ("node", "ssim", "0"),
    }


def test_the_mechanisms_are_those_that_the_documentation_names() -> None:
    assert len({one.name for one in MECHANISMS}) == len(MECHANISMS) == 10
    assert [one.nodes for one in MECHANISMS[:3]] == [10, 4, 10]
