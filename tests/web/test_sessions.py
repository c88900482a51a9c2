from __future__ import annotations

from flnet.web.sessions import MOST, Sessions


def test_a_session_is_known_until_it_ends() -> None:
    now = [0.0]
    sessions = Sessions(seconds=10, clock=lambda: now[0])
    one, other = sessions.begin(), sessions.begin()
    assert (sessions.knows(one), sessions.knows(other), sessions.knows("x"), sessions.knows("")) == (
        *(True, True),
        *(False, False),
    )
    sessions.end(other)
    sessions.end("never begun")
    assert (sessions.knows(one), sessions.knows(other)) == (True, False)
    now[0] = 10
    assert not sessions.knows(one)
    assert len(sessions) == 0


def test_there_are_never_many_and_the_oldest_ends_first() -> None:
    sessions = Sessions()
    values = [sessions.begin() for _ in range(MOST + 5)]
    assert len(set(values)) == MOST + 5
    assert len(sessions) == MOST
    assert [sessions.knows(value) for value in values] == [False] * 5 + [True] * MOST


def test_all_can_end_at_once_and_broken_values_are_known_to_nobody() -> None:
    sessions = Sessions()
    value = sessions.begin()
    assert not sessions.knows("\udcff")
    sessions.end_all()
    assert not sessions.knows(value)


def test_the_values_are_not_kept() -> None:
    sessions = Sessions()
    value = sessions.begin()
    assert len(value) >= 43
    assert value not in repr(vars(sessions))
