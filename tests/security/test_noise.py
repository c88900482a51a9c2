"""Normal noise: its distribution, and that it follows from a kept key and from what it protects."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import pytest

from flnet.algorithms.vertical.defences import GradientNoise, NoisePlace, OutputNoise
from flnet.errors import TrainerError
from flnet.params.params import Array
from flnet.security.noise import FILE, SecretNormal, system_normal, system_words

PLACE = NoisePlace("training", 3, 7, "content")


def must_be_normal(numbers: Array) -> None:
    assert numbers.shape == (20_001,)
    quantiles = np.sort(numbers)[[318, 3173, 10_000, 16_827, 19_682]]  # at -2.15, -1, 0, 1, 2.15 deviations
    assert quantiles == pytest.approx([-2.145, -1, 0, 1, 2.145], abs=0.1)


def test_both_sources_are_normal(tmp_path: Path) -> None:
    must_be_normal(system_normal(20_001))
    assert len(system_normal(3)) == 3
    rows = SecretNormal(tmp_path)(PLACE, (6667, 3))
    assert rows.shape == (6667, 3)
    must_be_normal(rows.reshape(-1))
    pairs = SecretNormal(tmp_path)(PLACE, (2, 10_000))
    assert abs(float(np.mean(pairs[0] * pairs[1]))) < 0.05


def test_the_same_place_has_the_same_noise_after_a_restart_and_every_other_place_its_own(tmp_path: Path) -> None:
    noise = SecretNormal(tmp_path)(PLACE, (5, 2))
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    assert (SecretNormal(tmp_path)(PLACE, (5, 2)) == noise).all()
    others = [
        PLACE._replace(kind="hold-out"),
        PLACE._replace(epoch=4),
        PLACE._replace(step=8),
        PLACE._replace(content="other"),
    ]
    assert all((SecretNormal(tmp_path)(other, (5, 2)) != noise).all() for other in others)


def test_no_two_nodes_have_the_same_key(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "ab"]
    draws = [SecretNormal(folder)(PLACE, (4,)) for folder in [*folders, None, None]]
    assert len({float(draw[0]) for draw in draws}) == 4


def test_a_damaged_key_is_no_key(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"short")
    with pytest.raises(TrainerError, match="has 5 bytes, expected 32"):
        SecretNormal(tmp_path)(PLACE, (1,))
    (tmp_path / FILE).unlink()
    (tmp_path / FILE).mkdir()
    with pytest.raises(TrainerError, match="cannot be used"):
        SecretNormal(tmp_path)(PLACE, (1,))


def test_two_releases_of_one_batch_cannot_be_averaged_and_of_two_batches_not_subtracted() -> None:
    """Noise that followed from the place alone would cancel out where an epoch is repeated with other numbers."""
    source = SecretNormal()
    rows = np.random.default_rng(0).normal(size=(200, 4))
    other = rows + 0.01
    for protect in (
        OutputNoise(100.0, 0.1, source).protect,
        GradientNoise("isotropic", source).protect,
        GradientNoise("max-norm", source).protect,
    ):
        sent = protect(rows, PLACE)
        assert (protect(rows, PLACE) == sent).all()
        assert np.abs(protect(other, PLACE) - sent - 0.01).mean() > 0.1
    quiet, loud = (OutputNoise(100.0, multiplier, source).protect(rows, PLACE) for multiplier in (0.1, 0.2))
    assert np.abs(2 * quiet - loud - rows).mean() > 1  # the noise of one is not twice that of the other


def test_the_words_of_the_system_can_be_written_to_and_differ() -> None:
    words = system_words(1000)
    words[0] = 7
    assert len(set(words.tolist())) == 1000
