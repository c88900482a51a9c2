"""How a saved state follows from the one before it, and what can be saved at all."""

from __future__ import annotations

import pytest

from flnet.effects import KeptUpdate
from flnet.errors import LocalError
from flnet.params import PeerId, Update
from flnet.settings import load_settings
from flnet.store.base import USUAL, KeptModel, Retention, SavedJob, as_text
from tests.helpers import key, params


def kept(peer: str, round: int) -> KeptUpdate:
    return KeptUpdate(Update(PeerId(peer), key(round), params(w=[round])))


def test_updates_stay_while_their_round_is_needed() -> None:
    saved = SavedJob({}, updates=(kept("b", 1),)).then(SavedJob({"updates_from": 1}, updates=(kept("a", 2),)))
    assert saved.updates == (kept("b", 1), kept("a", 2))
    assert saved.then(SavedJob({"updates_from": 2})).updates == (kept("a", 2),)
    assert saved.then(SavedJob({"updates_from": 3})).updates == ()


def test_of_each_round_the_newest_record_stays_in_the_order_of_rounds() -> None:
    def record(round: int, outcome: str) -> dict[str, object]:
        return {"round": round, "initiator": "a", "outcome": outcome}

    saved = SavedJob(records=(record(0, "x"), record(1, "y")))
    again = saved.then(SavedJob(records=(record(2, "z"), record(0, "new"))))
    assert again.records == (record(0, "new"), record(1, "y"), record(2, "z"))


def test_parameters_that_are_none_stay() -> None:
    remembered = params(r=[1.0])
    before = SavedJob({}, params(w=[1.0]), params(h=[1.0]), params(s=[1.0]), remembered=remembered)
    after = before.then(SavedJob({"round": 1}, sent=params(s=[2.0])))
    kept = (params(w=[1.0]), params(h=[1.0]), params(s=[2.0]))
    assert after == SavedJob({"round": 1}, *kept, remembered=remembered)
    assert after.parts == (*kept, remembered)
    assert before.then(SavedJob({}, remembered=params(r=[2.0]))).remembered == params(r=[2.0])


def test_of_models_that_wait_for_a_disk_the_newest_few_stay() -> None:
    def model(number: int, round: int) -> KeptModel:
        return KeptModel.of({"round": round}, params(w=[number]), params())

    saved = SavedJob(models=(model(1, 0), model(2, 1))).then(SavedJob(models=(model(1, 2),)))
    assert saved.models == (model(2, 1), model(1, 2))
    assert saved.then(SavedJob(models=(model(3, 3),))).models == (model(1, 2), model(3, 3))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"x"])
def test_only_plain_figures_can_be_saved(value: object) -> None:
    with pytest.raises(LocalError, match="plain JSON"):
        as_text({"x": value})


def test_what_is_kept_is_what_a_person_set() -> None:
    asked = {"keep_models": 0, "keep_model_megabytes": 2, "keep_rounds": 30, "keep_events": 4}
    assert Retention.of(load_settings(asked, {})) == Retention(0, 2 * 1024 * 1024, 30, 4)
    assert Retention.of(load_settings({}, {"FLNET_KEEP_ROUNDS": "7"})) == Retention(
        5, 128 * 1024 * 1024, 7, 10_000
    )
    assert Retention.of(load_settings({}, {})) == USUAL
