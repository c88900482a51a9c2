"""A Save holds what is new, and all figures."""

from __future__ import annotations

import json

from flnet.effects import Save
from flnet.events import HyperParamsEdited, Paused, RoundTriggered
from flnet.jobs.record import RoundRecord
from tests.helpers import params
from tests.jobs.helpers import asked, came
from tests.jobs.restarting import Lasting


def test_parameters_are_saved_once_and_the_own_update_before_it_is_sent() -> None:
    bench = Lasting()
    assert bench.saved.params == params(w=[0, 0])
    bench.hear(HyperParamsEdited({"e": 3}))
    edited = bench.one(Save)
    assert (edited.params, edited.private, edited.sent) == (None, None, None)
    bench.hear(asked("a", w=(9, 9)))
    assert bench.one(Save).params == params(w=[9, 9])  # what training starts from
    bench.train((1, 2))
    trained = bench.one(Save)
    assert (trained.params, trained.sent) == (None, params(w=[1, 2]))
    assert bench.effects[0] is trained
    assert trained.snapshot["own"]["round"] == 0


def test_every_update_is_saved_with_its_answer_and_goes_with_the_average() -> None:
    bench = Lasting()
    bench.hear(asked("a"))
    bench.hear(came("a", w=(1, 1)))
    assert [kept.update.peer for kept in bench.one(Save).updates] == ["a"]
    bench.hear(came("a", w=(1, 1)))
    assert bench.all(Save) == []  # the first one counts, and is saved already
    bench.train()
    bench.hear(came("c", w=(1, 1)))
    assert len(bench.saved.updates) == 2
    bench.average()
    assert not bench.saved.updates


def test_what_the_merging_rule_remembers_is_saved_with_its_average_and_there_again_after_a_restart() -> None:
    bench = Lasting(peers=[])
    bench.hear(RoundTriggered())
    bench.train()
    bench.average(remembered=params(scores=[1]))
    save = bench.all(Save)[0]
    assert (save.remembered, save.params) == (params(scores=[1]), bench.state.model and bench.state.model.shared)
    bench.measure()
    assert all(one.remembered is None for one in bench.all(Save))
    bench.restart()
    assert bench.state.remembered == params(scores=[1])
    assert all(one.remembered is None for one in bench.all(Save))


def test_records_are_saved_once_and_read_as_they_were() -> None:
    bench = Lasting()
    bench.through_round(0)
    bench.through_round(1)
    assert bench.saved.records == tuple(bench.job.history())
    bench.hear(Paused())
    assert bench.one(Save).records == ()
    for record in bench.saved.records:
        assert RoundRecord.read(json.loads(json.dumps(record))).view() == record
