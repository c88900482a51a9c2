"""Downloads large parameters in parts, from several peers at once, and goes on where an earlier run was stopped.

That the parts are right is known only when all of them have the digest together: what a peer says of single parts proves
nothing. If they do not, some peer served something else. Then one peer after another is asked for all of it, until the
digest is right; whoever served other bytes than these is named. So each wrong peer costs one more download at most.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping

from flnet.errors import PeerError, PeerRefused, RangeIgnored, TransportError
from flnet.params.blob import PartLanding
from flnet.params.params import Params, PeerId
from flnet.rounds.parts import MOST_SOURCES, PartsPlan
from flnet.store.partial_downloads import PartialDownload
from flnet.text import text
from flnet.wire.transport import Transport

LATE_SECONDS = 5.0  # without a part until another peer is asked for what is under way, before one has come
LATE, LEAST_LATE_SECONDS = 3.0, 1.0  # later: times the mean time of a part, but so many seconds at least
Given = dict[int, tuple[PeerId, bytes]]  # who served a part, and its hash


class PartsDownload:
    """One download.

    Attributes:
        wrong: peers that served something else.
        ignoring: peers that know no ranges, and can be asked for the whole only.
        received: bytes that came.
    """

    def __init__(
        self,
        transport: Transport,
        path: str,
        sources: Mapping[PeerId, str],
        kept: PartialDownload,
        limit: int,
        wanted: Callable[[memoryview, int], bool],
        decode: Callable[[], Awaitable[Params]],
        lost: Callable[[PeerId, TransportError], object],
        asks: Callable[[], object] = lambda: None,
        accepts: Collection[str] = (),
    ) -> None:
        """Args:
        sources: the addresses of peers that may hold it, those that are asked first in front.
        kept: what is here of it, and where the rest goes.
        limit: bytes that the body may have.
        wanted: looks at the first part; raises PeerError for what is not wanted.
        decode: makes parameters of all parts; raises PeerError if they do not have the digest.
        lost: hears of peers that do not answer.
        asks: hears of each request.
        accepts: forms in which the arrays may be packed.
        """
        self._transport, self._path, self._sources = transport, path, dict(sources)
        self._kept, self._limit, self._accepts = kept, limit, accepts
        self._wanted, self._decode, self._lost, self._asks = wanted, decode, lost, asks
        self.wrong: set[PeerId] = set()
        self.ignoring: set[PeerId] = set()
        self.received = 0
        self._are_misfits = False  # whether a peer serves a body of another size, or other arrays
        self._spent: list[float] = []  # seconds of each part that came
        self._plan: PartsPlan | None = PartsPlan(self._sources)  # as long as all peers may serve

    def add(self, peer: PeerId, address: str) -> None:
        """One more peer may hold it."""
        if self._plan is not None and peer not in self._sources and len(self._sources) < MOST_SOURCES:
            self._sources[peer] = address
            self._plan.sources.append(peer)

    async def run(self) -> Params:
        """Get all of it. When nobody serves the rest, what came stays.

        Raises:
            TransportError: no peer serves all of it.
            PeerError: no peer serves what was asked for.
        """
        is_resumed, given = bool(self._kept.parts), Given()
        assert self._plan is not None
        try:
            await self._collect(self._plan, given)
        except TransportError as exc:
            if not self._are_misfits or (len(self._sources) == 1 and not is_resumed):
                raise
            return await self._one_by_one(Given(), exc)
        try:
            return await self._decode()
        except PeerError as exc:
            givers = {peer for peer, _ in given.values()}
            if len(givers) == 1 and not is_resumed:
                self.wrong |= givers
            return await self._one_by_one(given, exc)

    async def _one_by_one(self, given: Given, failure: PeerError | TransportError) -> Params:
        """Ask one peer after another for all of it, those that served most first.

        Args:
            given: parts of several peers that are not right together.
            failure: what is raised if no peer serves the right ones.
        """
        self._plan = None
        served = Counter(peer for peer, _ in given.values())
        for peer in sorted(self._sources, key=lambda peer: -served[peer]):
            if peer in self.wrong | self.ignoring:
                continue
            await asyncio.to_thread(self._kept.begin_again)
            right = Given()
            try:
                await self._collect(PartsPlan([peer]), right)
                params = await self._decode()
            except TransportError as exc:
                failure = exc
            except PeerError as exc:
                failure = exc
                self.wrong.add(peer)
            else:
                hashes = {part: hashed for part, (_, hashed) in right.items()}
                self.wrong |= {other for part, (other, hashed) in given.items() if hashes.get(part) != hashed}
                return params
        await asyncio.to_thread(self._kept.begin_again)
        raise failure

    async def _collect(self, plan: PartsPlan, given: Given) -> None:
        """Get the parts that are missing, and note in `given` who served them.

        Raises:
            TransportError: no peer is left that serves them.
        """
        plan.want(set(range(self._kept.count)) - self._kept.parts if self._kept.count else [0])
        under_way: dict[asyncio.Task[PartLanding], tuple[PeerId, int]] = {}
        failure = ""
        try:
            while not plan.is_done:
                for request in plan.ask():
                    under_way[asyncio.create_task(self._get(*request))] = request
                if not under_way:
                    raise TransportError(failure or text("no peer has it"))
                done, _ = await asyncio.wait(under_way, timeout=self._late(), return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    plan.hurry()
                for task in done:
                    peer, part = under_way.pop(task)
                    exc = task.exception()
                    if isinstance(exc, TransportError | PeerError):
                        failure = str(exc)  # the error itself, raised here, would hold this call and what has come
                        self._failed(peer, exc)
                        plan.failed(peer, part)
                        continue
                    landing = task.result()
                    if plan.came(peer, part):
                        given[part] = peer, await self._keep(part, landing, plan)
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    async def _get(self, peer: PeerId, part: int) -> PartLanding:
        self._asks()
        began = asyncio.get_running_loop().time()
        landing = PartLanding(*self._kept.span(part), self._limit, self._kept.body_bytes, self._accepts)
        try:
            await self._transport.download(self._sources[peer], self._path, landing)
        finally:
            self.received += landing.received
        assert landing.body_bytes is not None
        if part == 0:
            self._wanted(landing.whole(), landing.body_bytes)
        self._spent.append(asyncio.get_running_loop().time() - began)
        return landing

    async def _keep(self, part: int, landing: PartLanding, plan: PartsPlan) -> bytes:
        if not self._kept.count:
            assert landing.body_bytes is not None
            await asyncio.to_thread(self._kept.begin, landing.body_bytes)
            plan.want(range(1, self._kept.count))
        return await asyncio.to_thread(self._kept.add, part, landing.whole())

    def _failed(self, peer: PeerId, exc: TransportError | PeerError) -> None:
        if isinstance(exc, PeerError):
            self._are_misfits = True
        elif isinstance(exc, RangeIgnored):
            self.ignoring.add(peer)
        elif not isinstance(exc, PeerRefused):
            self._lost(peer, exc)

    def _late(self) -> float:
        if not self._spent:
            return LATE_SECONDS
        return max(LEAST_LATE_SECONDS, LATE * sum(self._spent) / len(self._spent))
