"""The selector: what it learns once, and for which inputs the local model answers."""

from __future__ import annotations

import numpy as np

from flnet.training.api import InputSpec
from flnet.training.methods.selector import STATE, Selector
from tests.training.methods.lines import clouds

TABLE = InputSpec("features", (4,))


def test_own_rows_are_known_and_others_are_not() -> None:
    selector = Selector(TABLE, 0)
    own, others = clouds(200, 0.0, False)[0], clouds(100, 8.0, True)[0]
    params = selector.learnt(selector.initial(), own)
    is_local, errors, limit = selector.judged(params, np.concatenate([own, others]))
    assert is_local[:200].mean() > 0.95
    assert not is_local[200:].any()
    assert ((errors <= limit) == is_local).all()
    assert params[STATE][0] == 200


def test_it_learns_once_and_anew_when_rows_come() -> None:
    selector, own = Selector(TABLE, 0), clouds(50, 0.0, False)[0]
    params = selector.learnt(selector.initial(), own)
    again = selector.learnt(params, own)
    assert all(again[name] is params[name] for name in params)
    more = selector.learnt(params, np.concatenate([own, own]))
    assert more[STATE][0] == 100
    assert selector.mark(more) != selector.mark(params)


def test_before_it_learnt_and_without_own_rows_the_common_model_answers() -> None:
    selector = Selector(TABLE, 0)
    for params in (selector.initial(), selector.learnt(selector.initial(), np.empty((0, 4)))):
        assert not selector.judged(params, np.zeros((3, 4)))[0].any()


def test_images_are_scaled_by_their_range_and_arrays_keep_their_shapes() -> None:
    for shape in ((6, 5), (6, 5, 3)):
        selector = Selector(InputSpec("image", shape, 0, 255), 0)
        images = np.random.default_rng(0).integers(0, 255, (5, *shape)).astype(np.uint8)
        initial = selector.initial()
        params = selector.learnt(initial, images)
        assert {n: (v.shape, v.dtype) for n, v in params.items()} == {
            n: (v.shape, v.dtype) for n, v in initial.items()
        }
        assert selector.judged(params, images)[0].all()
        assert max(selector.judged(params, images)[1]) < 1  # in units of the range


def test_a_column_that_never_changes_is_no_trouble() -> None:
    rows = np.zeros((20, 4))
    selector = Selector(TABLE, 0)
    params = selector.learnt(selector.initial(), rows)
    assert all(np.isfinite(value).all() for value in params.values())
