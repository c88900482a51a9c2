"""Looks up the addresses of host names, in threads of their own.

A name server that does not answer keeps a lookup for ten seconds and longer. Event loops look names up in a few threads,
which other work may need too. Anybody can announce names that lead to no answer. So names that a person wrote down have
turns of their own, and so have names that were found before, and all others: these hold up nothing but themselves.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress

MOST = 32  # lookups at the same time, of each of three kinds of names
KEPT = 1024  # names of which it is known that they had an address


class HostNames:
    """Looks names up, each of them once at a time."""

    def __init__(self, is_named: Callable[[str], bool]) -> None:
        """Args:
        is_named: whether a person wrote this name down.
        """
        self._is_named = is_named
        self._named, self._found, self._new = (asyncio.Semaphore(MOST) for _ in range(3))
        self._answers: dict[str, asyncio.Future[list[str]]] = {}  # that have not come
        self._known: OrderedDict[str, None] = OrderedDict()  # had an address; the one found last stands last

    async def addresses(self, host: str) -> list[str]:
        """The IP addresses of a host.

        Raises:
            OSError: it has none, or no name server answers.
        """
        if host not in self._answers:
            turns = self._named if self._is_named(host) else self._found if host in self._known else self._new
            await turns.acquire()
            if host in self._answers:  # somebody else asked meanwhile
                turns.release()
            else:
                self._answers[host] = self._begin(host, turns)
        return await asyncio.shield(self._answers[host])

    def _begin(self, host: str, turns: asyncio.Semaphore) -> asyncio.Future[list[str]]:
        """Look a name up in a thread; its turn ends with the thread, also if nobody waits for the answer any more."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[str]] = loop.create_future()

        def end(addresses: list[str], failure: OSError | None) -> None:
            turns.release()
            del self._answers[host]
            if failure is None:
                self._remember(host)
                answer.set_result(addresses)
            else:
                answer.set_exception(failure)
                answer.exception()  # nobody has to wait for it

        def look_up() -> None:
            addresses, failure = list[str](), None
            try:
                addresses = [
                    str(place[0]) for *_, place in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
                ]
            except OSError as exc:
                failure = exc
            except UnicodeError as exc:
                failure = OSError(str(exc))
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(end, addresses, failure)

        threading.Thread(target=look_up, name="flnet-host-names", daemon=True).start()
        return answer

    def _remember(self, host: str) -> None:
        self._known[host] = None
        self._known.move_to_end(host)
        if len(self._known) > KEPT:
            self._known.popitem(last=False)
