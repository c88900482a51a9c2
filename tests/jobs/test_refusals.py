"""What peers answer to our messages: who is waited for after a refusal, and who is not."""

from __future__ import annotations

import pytest

from flnet.effects import Average, Publish
from flnet.events import (
    RoundTriggered,
    SendRefused,
)
from flnet.jobs import Phase
from flnet.messages import Accuracy, ModelParams, StartTraining
from flnet.params import PeerId
from tests.helpers import key
from tests.jobs.helpers import Bench


def waiting() -> Bench:
    """The own update is out, that of the only peer is not here."""
    bench = Bench(peers=["a"])
    bench.hear(RoundTriggered())
    bench.train()
    return bench


def refusal(status: int, error: str, path: str = StartTraining.path, by: str = "a") -> SendRefused:
    return SendRefused(PeerId(by), path, key(0, "b"), status, error, "words", 0)


@pytest.mark.parametrize(
    "answer",
    [
        refusal(404, "unknown_trainer"),
        refusal(404, "no_data"),
        refusal(404, "no_data", ModelParams.path),
        refusal(422, "params_refused"),
        refusal(422, "params_refused", ModelParams.path),
        refusal(413, "body_too_large"),
    ],
)
def test_a_peer_whose_answer_says_that_it_takes_no_part_is_not_waited_for(answer: SendRefused) -> None:
    bench = waiting()
    bench.hear(answer)
    assert [update.peer for update in bench.one(Average).updates] == ["b"]


@pytest.mark.parametrize(
    "answer",
    [
        refusal(503, "not_ready"),
        refusal(500, "internal_error"),
        refusal(409, "round_lost"),
        refusal(409, "stale_round", ModelParams.path),
        refusal(413, "body_too_large", ModelParams.path),
        refusal(400, "not_comparable", Accuracy.path),
    ],
)
def test_a_peer_that_refused_something_else_may_still_send_its_update(answer: SendRefused) -> None:
    bench = waiting()
    bench.hear(answer)
    assert bench.job.view()["waiting_for"] == ["a"]
    assert bench.one(Publish).kind == "refused"


def test_a_refusal_of_another_round_means_nothing() -> None:
    bench = waiting()
    assert bench.hear(SendRefused(PeerId("a"), StartTraining.path, key(0, "z"), 404, "no_data", "")) == []
    assert bench.phase is Phase.GATHERING
