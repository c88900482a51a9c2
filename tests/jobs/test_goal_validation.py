"""By which accuracy a series that ends when accuracy falls is judged: on validation rows, where one is told."""

from __future__ import annotations

import pytest

from flnet.effects import Evaluate
from flnet.events import Evaluated, RoundTriggered, Trained
from flnet.messages import Accuracy, ReportMessage
from tests.helpers import params
from tests.jobs.helpers import Bench, came

VALIDATED = {"validation_accuracy": 0.7, "validation_loss": 0.25}


@pytest.mark.parametrize(
    ("until", "metrics", "report"),
    [
        ("mlfedavg", VALIDATED, ReportMessage(accuracy=0.7, loss=0.25)),
        ("mlfedavg cumulative, within 600", VALIDATED, ReportMessage(accuracy=0.7, loss=0.25)),
        ("mlfedavg", {"validation_loss": 0.25}, ReportMessage(accuracy=0.5, loss=0.25)),
        ("mlfedavg", {**VALIDATED, "validation_accuracy": 7.0}, ReportMessage(accuracy=0.5, loss=0.25)),
        ("accuracy>=0.9, mlfedavg", VALIDATED, ReportMessage(accuracy=0.5, loss=0.25)),
        ("no-gain 3", VALIDATED, ReportMessage(accuracy=0.5, loss=0.25)),
    ],
)
def test_what_is_reported(until: str, metrics: dict[str, float], report: ReportMessage) -> None:
    bench = Bench()
    bench.hear(RoundTriggered(5, until=until))
    assert bench.state.key is not None
    bench.hear(Trained(bench.state.key, params(w=(2, 4)), 1, 0.5, metrics=metrics))
    for name in "ac":
        bench.hear(came(name, 0, "b"))
    bench.average()
    effect = bench.one(Evaluate)
    bench.hear(Evaluated(effect.key, effect.shared.digest, 0.5))
    assert bench.said(Accuracy).report == report
    assert bench.state.accuracy == 0.5  # what people see stays what was measured on test rows
