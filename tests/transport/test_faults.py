"""Every failure of the HTTP library has its line in the table."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from aiohttp.http_exceptions import BadStatusLine

from flnet.errors import PeerTimeout, PeerUnreachable, TransportError
from flnet.transport.faults import FAULTS, because, fault_of


def family(kind: type[Exception]) -> set[type[Exception]]:
    """The class and all below it that come with aiohttp."""
    children: set[type[Exception]] = set().union(*(family(child) for child in kind.__subclasses__()))
    return children | ({kind} if kind.__module__.startswith("aiohttp") else set())


def test_every_failure_that_aiohttp_knows_has_its_line() -> None:
    names = {kind.__name__ for kind in family(aiohttp.ClientError)}
    assert set(FAULTS) == names | {"HttpProcessingError", "NotCalled", "OSError", "ValueError"}


def test_every_failure_is_one_of_ours() -> None:
    assert all(issubclass(fault.error, TransportError) for fault in FAULTS.values())
    late = {name for name, fault in FAULTS.items() if fault.error is PeerTimeout}
    assert late == {"ServerTimeoutError", "SocketTimeoutError"}


def test_the_nearest_class_above_decides() -> None:
    class FromTheFuture(aiohttp.ClientError):
        pass

    class OfPayloads(aiohttp.ClientPayloadError):
        pass

    assert fault_of(FromTheFuture()) == FAULTS["ClientError"]
    assert fault_of(OfPayloads()) == FAULTS["ClientPayloadError"]
    assert fault_of(BadStatusLine()) == FAULTS["HttpProcessingError"]
    assert fault_of(UnicodeError()) == FAULTS["ValueError"]
    assert fault_of(ConnectionResetError()) == FAULTS["OSError"]
    assert fault_of(KeyError()).error is PeerUnreachable


@pytest.mark.parametrize("name", ["ConnectionTimeoutError", "ServerTimeoutError"])
def test_a_timeout_of_the_library_is_not_taken_for_any_timeout(name: str) -> None:
    made = getattr(aiohttp, name)("x")
    assert isinstance(made, asyncio.TimeoutError)
    assert fault_of(made) == FAULTS[name]


def test_words_of_others_stay_short_and_on_one_line() -> None:
    assert because(aiohttp.ClientPayloadError()) == ""
    assert because(OSError(111, "Connect call failed")) == " (Connect call failed)"
    assert because(ValueError("a\r\n\tb\x1b[31m")) == " (a\\r\\n\\tb\\x1b[31m)"
    assert len(because(ValueError("x" * 10_000))) < 210
