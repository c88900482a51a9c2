"""What a node says of a round: to all who are there, and nothing where nobody waits for it."""

from __future__ import annotations

from flnet.effects import Send
from flnet.events import RoundTriggered
from flnet.jobs.speaking import decline, start_message
from flnet.messages import ModelParams, StartTraining
from flnet.params import PeerId
from tests.jobs.helpers import Bench, asked


def test_a_long_reason_is_cut_for_the_wire() -> None:
    job = Bench()
    job.hear(asked("a"))
    told = decline(job.state, "x" * 900)
    sent = [effect for effect in told if isinstance(effect, Send)]
    assert [set(send.to) for send in sent] == [{"a", "c"}]
    assert isinstance(sent[0].message, ModelParams) and len(sent[0].message.declined or "") == 500


def test_a_start_names_the_model_and_goes_to_whom_it_is_for() -> None:
    job = Bench()
    job.hear(RoundTriggered())
    start = start_message(job.state, [PeerId("c")])
    assert isinstance(start, Send) and start.to == ("c",)
    assert isinstance(start.message, StartTraining) and job.state.model is not None
    assert start.message.digest == job.state.model.shared.digest
