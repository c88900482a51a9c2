"""Other data come between two rounds, never into one; a model that fits them stays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flnet.effects import Save, Train
from flnet.events import ClaimReceived, DataChanged, PrepareFailed, RoundTriggered
from flnet.jobs import Phase
from tests.helpers import params
from tests.jobs.helpers import Bench, asked, came, claim, declaration, prepared


def changed(w: Sequence[float] = (9, 9), source: str = "other rows", **declared: Any) -> DataChanged:
    return DataChanged(declaration(data={"source": source}, **declared), params(w=w))


def source_of(bench: Bench) -> object:
    return bench.job.view()["data"].get("source")


def test_a_job_without_data_is_ready_when_they_have_come() -> None:
    bench = Bench(prepare=False)
    bench.hear(PrepareFailed("no files"))
    bench.hear(changed())
    assert (bench.phase, bench.w, source_of(bench), bench.job.view()["error"]) == (
        Phase.IDLE,
        [9, 9],
        "other rows",
        None,
    )
    bench.hear(RoundTriggered())
    assert bench.one(Train).params["w"].tolist() == [9, 9]


def test_a_model_that_fits_stays_and_with_it_its_round() -> None:
    bench = Bench().through_round()
    held = bench.state.model
    bench.hear(changed())
    assert (bench.phase, bench.state.model, source_of(bench)) == (Phase.IDLE, held, "other rows")


def test_in_a_round_the_old_data_count_until_it_is_over() -> None:
    bench = Bench(peers=["a"])
    bench.hear(RoundTriggered(rounds=2))
    bench.hear(changed())
    assert (bench.phase, source_of(bench), bench.effects) == (Phase.TRAINING, None, [])
    bench.train()
    bench.hear(came("a", 0, "b"))
    bench.average()
    bench.measure()
    held = bench.w
    assert source_of(bench) is None
    bench.hear(ClaimReceived(claim("a", 0, accuracy=0.1)))  # the next round of the series opens at once
    assert (bench.state.number, bench.phase, source_of(bench), bench.w) == (1, Phase.TRAINING, "other rows", held)


def test_data_that_came_while_loading_count_after_it() -> None:
    bench = Bench(prepare=False)
    bench.hear(changed())
    assert bench.phase is Phase.LOADING
    bench.hear(prepared())
    assert (bench.phase, source_of(bench)) == (Phase.IDLE, "other rows")


def test_a_model_that_does_not_fit_begins_anew() -> None:
    bench = Bench()
    bench.hear(changed(w=(1, 2, 3)))
    assert bench.w == [1, 2, 3]
    assert bench.one(Save).params is not None
    bench.hear(changed(agreement={"classes": "cat, dog"}, w=(4, 5, 6)))
    assert bench.w == [4, 5, 6]
    bench.hear(asked("a", 0, w=(0, 0, 0), agreement={"classes": "cat, dog"}))
    assert bench.phase is Phase.TRAINING


def test_private_parameters_that_do_not_fit_are_taken_anew_and_the_shared_ones_stay() -> None:
    bench = Bench()
    assert bench.state.model is not None
    old = bench.state.model.shared
    event = DataChanged(declaration(shared=("w",)), params(w=[7, 7], head=[1.0]))
    bench.hear(event)
    assert bench.state.model is not None
    assert bench.state.model.shared == old
    assert bench.state.model.private["head"].tolist() == [1.0]
