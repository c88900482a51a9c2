"""The attack with shadow models, on models that remember, that know nothing, and that remember one class alone."""

from __future__ import annotations

import numpy as np
import pytest

from flnet.experiments.shadow_models import Confidences, ShadowAttack


def told(count: int, seed: int, sure: tuple[float, ...] = (0.0, 0.0, 0.0)) -> Confidences:
    """What a model says that is surer of rows that it has seen, by so much for each class."""
    chance = np.random.default_rng(seed)
    labels, seen = chance.integers(0, 3, count), chance.random(count) < 0.5
    scores = chance.normal(0, 1, (count, 3))
    scores[np.arange(count), labels] += 1 + seen * np.array(sure)[labels]
    powers = np.exp(scores)
    return Confidences(powers / powers.sum(axis=1, keepdims=True), labels, seen)


def some(rows: Confidences, kept: np.ndarray) -> Confidences:
    return Confidences(rows.probabilities[kept], rows.labels[kept], rows.seen[kept])


def test_a_model_that_remembers_is_seen_through() -> None:
    attack = ShadowAttack(told(3000, 1, (9, 9, 9)))
    assert attack.advantage(told(1000, 2, (9, 9, 9))) > 0.95


def test_of_a_model_that_knows_no_row_nothing_is_seen() -> None:
    attack = ShadowAttack(told(3000, 1))
    assert abs(attack.advantage(told(2000, 2))) < 0.08


def test_each_class_has_a_classifier_of_its_own() -> None:
    shown = told(3000, 1, (6, 0, -6))  # the model is less sure of what it has seen of the last class
    attack, rows = ShadowAttack(shown), told(3000, 2, (6, 0, -6))
    by_class = [attack.advantage(some(rows, rows.labels == label)) for label in range(3)]
    assert min(by_class[0], by_class[2]) > 0.9
    assert abs(by_class[1]) < 0.15


def test_a_class_that_is_too_rare_is_judged_like_the_others() -> None:
    shown = told(3000, 1, (6, 6, 6))
    rare = some(shown, (shown.labels > 0) | (np.arange(3000) < 20))
    assert ShadowAttack(rare).advantage(told(1000, 2, (6, 6, 6))) > 0.8


def test_shuffled_answers_teach_nothing() -> None:
    shown, rows = told(3000, 1, (6, 6, 6)), told(2000, 2, (6, 6, 6))
    shuffled = shown._replace(seen=np.random.default_rng(3).permutation(shown.seen))
    assert abs(ShadowAttack(shuffled).advantage(rows)) < 0.5 < ShadowAttack(shown).advantage(rows)
    sides = rows._replace(seen=~rows.seen)
    assert ShadowAttack(shown).advantage(sides) == pytest.approx(-ShadowAttack(shown).advantage(rows))
