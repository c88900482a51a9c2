"""Updates that came and do not count: the job names them and goes on."""

from __future__ import annotations

from flnet.effects import Publish
from flnet.events import Averaged
from flnet.jobs import Phase
from flnet.params import PeerId
from tests.helpers import key, params
from tests.jobs.test_closing import averaging


def test_an_update_that_does_not_count_is_named_and_the_round_goes_on() -> None:
    bench = averaging("a", "c")
    bench.hear(Averaged(key(0, "b"), params(w=[3, 3]), 0.1, {PeerId("c"): "it moved 9"}))
    assert bench.phase is Phase.MEASURING
    record, model = bench.state.record, bench.state.model
    assert record is not None
    assert model is not None
    assert record.contributors == ("a", "b")
    assert record.outcome == "averaged 3 updates: everyone expected has spoken; left out: c"
    assert model.contributors == 2
    told = next(one for one in bench.all(Publish) if one.kind == "update_refused")
    assert (told.text, told.data["peer"]) == ("the update of c does not count: it moved 9", "c")


def test_an_average_from_another_base_gives_way_to_any_other_of_its_round() -> None:
    bench = averaging("a", "c")
    bench.hear(Averaged(key(0, "b"), params(w=[3, 3]), is_common=False))
    assert bench.state.model is not None
    assert bench.state.model.contributors == 0
    assert bench.state.model.better_of(params(w=[1, 1]), 0, 1).shared == params(w=[1, 1])
