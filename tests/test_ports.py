"""Ports for nodes of tests: none twice, none that somebody has, none that the system may pick meanwhile."""

from __future__ import annotations

import socket

import pytest

from tests import ports


def test_ports_are_given_once_and_lie_apart() -> None:
    given = [ports.free_port() for _ in range(50)]
    assert len(set(given)) == 50
    assert all(abs(one - other) >= ports.STEP for one in given for other in given if one != other)
    assert all(ports.FIRST <= port < 32768 for port in given)


def test_a_port_in_use_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = ports.free_port()
    with socket.create_server(("127.0.0.1", taken)):
        monkeypatch.setattr(ports, "_steps", iter(range(ports.STRETCH)))
        given = [ports.free_port() for _ in range(ports.STRETCH // ports.STEP - 1)]
    assert taken not in given


def test_processes_that_share_the_suite_have_stretches_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = set()
    for worker in ("", "gw0", "gw1", "gw2"):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", worker)
        starts.add(ports.free_port() // ports.STRETCH)
    assert len(starts) == 4
