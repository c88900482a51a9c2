"""Effects come in the one order in which they are performed."""

from __future__ import annotations

import itertools
import typing

from hypothesis import given
from hypothesis import strategies as st

from flnet.effects import ORDER, Answer, CancelTimer, Effect, Publish, Save, SetTimer, TellJobs, in_order
from flnet.messages import Triggered
from flnet.params import PeerId

SAVE, ANSWER = Save({}), Answer(Triggered(trainer_id="T", round=0))
NEWS, TIMER, STOP = Publish("x", "words"), SetTimer("t", 1), CancelTimer("t")
TELL = TellJobs(PeerId("b"), alive=True)


def test_every_effect_has_its_place_in_the_order() -> None:
    assert set(ORDER) == set(typing.get_args(Effect))
    assert len(ORDER) == len(set(ORDER))


def test_what_is_promised_is_saved_first_and_news_come_last() -> None:
    effects: list[Effect] = [NEWS, TIMER, ANSWER, SAVE, STOP, TELL]
    for mixed in itertools.permutations(effects):
        assert in_order(mixed) == [SAVE, ANSWER, TELL, STOP, TIMER, NEWS]


@given(st.lists(st.integers(0, 3)))
def test_equal_kinds_keep_their_order(numbers: list[int]) -> None:
    timers = [SetTimer(str(number), number) for number in numbers]
    assert in_order(timers) == timers
