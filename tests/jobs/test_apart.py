"""What a job averaged from another base than most of its peers: nobody takes it, and it gives way to theirs."""

from __future__ import annotations

from flnet.effects import Evaluate, Publish
from flnet.events import Averaged, ClaimReceived
from flnet.messages import Accuracy
from tests.helpers import key, params
from tests.jobs.helpers import claim
from tests.jobs.test_closing import averaging


def test_who_averaged_from_another_base_takes_what_the_others_average_though_it_is_worse_here() -> None:
    bench = averaging("a", "c")
    bench.hear(Averaged(key(0, "b"), params(w=[3, 3]), is_common=False))
    bench.measure(0.8)
    assert bench.said(Accuracy).contributors == 0
    bench.hear(ClaimReceived(claim("a", accuracy=0.5, w=(1, 1), contributors=3)))
    bench.measure(0.4)
    assert bench.w == [1, 1]
    assert bench.state.model is not None
    assert (bench.state.accuracy, bench.state.model.contributors) == (0.4, 3)
    told = next(one for one in bench.all(Publish) if one.kind == "exchanged")
    assert told.text == "adopted the model of a: most nodes began this round with another model than this one"


def test_an_average_from_another_base_is_taken_by_nobody_however_good_it_is() -> None:
    bench = averaging("a", "c")
    bench.average()
    bench.measure(0.2)
    held = bench.w
    bench.hear(ClaimReceived(claim("a", accuracy=0.9, contributors=0)))
    assert bench.all(Evaluate) == []
    assert bench.w == held
