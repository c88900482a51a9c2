"""What is here, what is on its way, and what rests until it is tried again."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from flnet.params.params import Digest, Params, PeerId, Schema
from flnet.protocol.effects import CancelTimer, Effect, Fetch, FetchSegments, SetTimer
from flnet.protocol.events import Event, Fetched, FetchFailed, TimerFired
from flnet.protocol.updates import RoundKey
from flnet.rounds.download import TURNS
from flnet.rounds.segment_downloads import SegmentDownloads, together

KEY, ME, A, B = RoundKey(3, PeerId("a")), PeerId("me"), PeerId("a"), PeerId("b")
SEGMENTS = [Params({"w": np.full(2, number, np.float32)}) for number in range(3)]
WANTED = SEGMENTS[0]
FORM = Schema.of(WANTED)


def downloads() -> SegmentDownloads:
    return SegmentDownloads(KEY, ME, 30.0)


def came(peer: PeerId, params: Params = WANTED) -> Event:
    return Fetched(KEY, peer, params.digest, params)


def failed(peer: PeerId, digest: Digest = WANTED.digest) -> Event:
    return FetchFailed(KEY, peer, digest, "no")


def asked(effects: list[Effect]) -> list[PeerId]:
    return [effect.peer for effect in effects if isinstance(effect, Fetch)]


def test_a_segment_is_asked_for_once_and_is_here_when_it_has_come() -> None:
    made = downloads()
    timer, fetch = made.start(WANTED.digest, [A, B], FORM)
    assert isinstance(timer, SetTimer) and made.timers == (timer.name,)
    assert fetch == Fetch(KEY, A, WANTED.digest, form=FORM)
    assert made.start(WANTED.digest, [B], FORM) == []
    assert made.awaits(WANTED.digest) and made.form_of(WANTED.digest) == FORM
    assert made.find(WANTED.digest) is None
    assert made.receive(came(A)) == [CancelTimer(timer.name)]
    assert made.find(WANTED.digest) is WANTED
    assert not made.awaits(WANTED.digest) and made.form_of(WANTED.digest) is None and not made.timers


def test_who_made_a_segment_is_asked_before_those_that_may_still_be_downloading_it() -> None:
    made = downloads()
    assert asked(made.start(WANTED.digest, [A, B, PeerId("z")], FORM, first=B)) == [B]
    assert asked(made.receive(failed(B))) == [PeerId("z")]
    assert asked(made.receive(failed(PeerId("z")))) == [A]


def test_what_nobody_serves_rests_until_it_is_tried_again() -> None:
    made = downloads()
    assert asked(made.start(WANTED.digest, [A, B], None)) == [A]
    assert asked(made.receive(failed(A))) == [B]
    assert not made.is_any_resting
    made.receive(failed(B))
    assert made.is_any_resting and made.start(WANTED.digest, [A], None) == []
    made.wake()
    assert not made.is_any_resting and asked(made.start(WANTED.digest, [A], None)) == [A]


def test_what_only_this_node_could_serve_rests_at_once() -> None:
    made = downloads()
    assert made.start(WANTED.digest, [ME], None) == []
    assert made.is_any_resting and not made.awaits(WANTED.digest)


def test_a_peer_that_does_not_answer_is_waited_for_in_vain() -> None:
    made = downloads()
    made.start(WANTED.digest, [A], None)
    (timer,) = made.timers
    for _ in range(TURNS):
        made.receive(TimerFired(timer))
    assert made.is_any_resting and made.timers == ()


def test_what_came_late_or_was_made_here_is_found_and_stays_when_downloads_end() -> None:
    made = downloads()
    made.keep(SEGMENTS[1])
    made.start(WANTED.digest, [A], None)
    made.end()
    assert made.timers == ()
    assert made.receive(came(A)) == [] and made.find(WANTED.digest) is WANTED
    assert made.find(SEGMENTS[1].digest) is SEGMENTS[1]


def test_all_segments_of_one_peer_are_asked_for_in_one_request() -> None:
    made = downloads()
    sources = ([A], [B], [A])
    effects = [
        effect
        for segment, peers in zip(SEGMENTS, sources, strict=True)
        for effect in made.start(segment.digest, peers, FORM)
    ]
    whole = Fetch(KEY, A, Digest("e" * 64))  # a model: its form is that of the job
    *timers, model, of_a, of_b = together([*effects, whole])
    assert [type(timer) for timer in timers] == [SetTimer] * 3 and model == whole
    assert of_a == FetchSegments(KEY, A, {SEGMENTS[0].digest: FORM, SEGMENTS[2].digest: FORM})
    assert of_b == Fetch(KEY, B, SEGMENTS[1].digest, form=FORM)
    assert list(of_a.one_by_one()) == [Fetch(KEY, A, SEGMENTS[n].digest, form=FORM) for n in (0, 2)]


STEPS = st.lists(
    st.tuples(st.sampled_from(["start", "came", "failed", "wake"]), st.integers(0, 2), st.sampled_from([A, B]))
)


@given(STEPS)
def test_a_download_is_under_way_as_long_as_a_peer_is_asked_and_has_one_timer(
    steps: list[tuple[str, int, PeerId]],
) -> None:
    made, open_requests = downloads(), set[tuple[PeerId, Digest]]()
    for step, number, peer in steps:
        params = SEGMENTS[number]
        effects: list[Effect] = []
        if step == "start":
            effects = made.start(params.digest, [A, B], FORM)
        elif step == "wake":
            made.wake()
        elif (peer, params.digest) in open_requests:
            open_requests.remove((peer, params.digest))
            effects = made.receive(came(peer, params) if step == "came" else failed(peer, params.digest))
        open_requests |= {(each.peer, each.digest) for each in effects if isinstance(each, Fetch)}
        assert len(made.timers) == sum(made.awaits(each.digest) for each in SEGMENTS)
        assert not made.awaits(params.digest) or any(digest == params.digest for _, digest in open_requests)
