"""Virtual time: a clock that jumps to the next scheduled call, a node's timers, and coroutines that sleep on it.

Hours of a mesh pass in seconds, and equal runs repeat exactly.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Coroutine, Generator, Hashable
from dataclasses import dataclass
from typing import Any

from flnet.protocol.messages import Packet


class ScheduledCall:
    """A call that is due at some time; `background` calls do not keep the simulation running."""

    __slots__ = ("act", "background", "is_over")

    def __init__(self, act: Callable[[], None], background: bool = False) -> None:
        self.act, self.background = act, background
        self.is_over = False  # it ran, or was cancelled


class VirtualClock:
    """Runs scheduled calls in order of time, and calls of equal time in the order in which they were scheduled."""

    def __init__(self) -> None:
        self.now = 0.0
        self._agenda: list[tuple[float, int, ScheduledCall]] = []
        self._order = 0
        self._foreground = 0

    def after(self, seconds: float, act: Callable[[], None], *, background: bool = False) -> ScheduledCall:
        """Schedule a call."""
        at = self.now + seconds
        call = ScheduledCall(act, background)
        self._order += 1
        heapq.heappush(self._agenda, (at, self._order, call))
        self._foreground += not background
        return call

    def cancel(self, call: ScheduledCall) -> None:
        """Cancel a call; does nothing if it already ran."""
        if not call.is_over:
            call.is_over = True
            self._foreground -= not call.background

    def clear(self) -> None:
        """Cancel all calls."""
        self._agenda.clear()
        self._foreground = 0

    def run(self, until: Callable[[], bool] | None = None, limit: float = float("inf")) -> None:
        """Run until `until()` holds, only background calls are left, or `limit` (absolute seconds) is reached."""
        while self._foreground and not (until and until()):
            if not self._step(limit):
                self.now = limit
                return

    def run_to(self, at: float) -> None:
        """Run everything that is due by then, background calls too."""
        agenda = self._agenda
        while agenda and agenda[0][0] <= at and self._step(at):
            pass
        self.now = at

    def _step(self, limit: float) -> bool:
        """Run the next call; False if it lies beyond the limit."""
        agenda = self._agenda
        while agenda and agenda[0][2].is_over:
            heapq.heappop(agenda)
        if not agenda or agenda[0][0] > limit:
            return False
        at, _, call = heapq.heappop(agenda)
        call.is_over = True  # cancelling it later changes nothing
        self._foreground -= not call.background
        self.now = at
        call.act()
        return True


Fire = Callable[[float], None]  # takes how many seconds late the timer is


@dataclass(slots=True)
class _Timer:
    due: float  # by the virtual clock
    act: Fire
    background: bool
    call: ScheduledCall


class LocalClock:
    """The timers of one node: they are late while its event loop is stalled, and wrong where its clock is.

    Attributes:
        rate: seconds that this clock counts per second of virtual time.
    """

    def __init__(self, clock: VirtualClock) -> None:
        self.rate = 1.0
        self._clock = clock
        self._timers: dict[Hashable, _Timer] = {}
        self._unnamed = itertools.count()
        self._is_stalled = False
        self._late: list[Hashable] = []  # came due during a stall

    def set(self, key: Hashable, seconds: float, act: Fire, *, background: bool = False) -> None:
        """Set a timer by this clock, in place of the one with this key."""
        self.cancel(key)
        self._wait(key, seconds / self.rate, act, background)

    def after(self, seconds: float, act: Fire) -> Hashable:
        """Set a background timer with a key of its own, and return the key."""
        key = next(self._unnamed)
        self.set(key, seconds, act, background=True)
        return key

    def cancel(self, key: Hashable) -> None:
        """Cancel a timer, if it exists."""
        if (timer := self._timers.pop(key, None)) is not None:
            self._clock.cancel(timer.call)

    def jump(self, seconds: float) -> None:
        """Move this clock ahead (or back, if negative): timers fire earlier or later by that much."""
        for key, timer in list(self._timers.items()):
            self._clock.cancel(timer.call)
            left = timer.due - self._clock.now - seconds / self.rate
            self._wait(key, max(left, 0.0), timer.act, timer.background)
            self._timers[key].due = self._clock.now + left

    def stop(self) -> None:
        """Stall: timers that come due wait until `resume`."""
        self._is_stalled = True

    def resume(self) -> None:
        """End a stall; timers that came due meanwhile fire now."""
        self._is_stalled = False
        late, self._late = self._late, []
        for key in late:
            self._fire(key)

    def close(self) -> None:
        """Cancel all timers."""
        for key in list(self._timers):
            self.cancel(key)

    def _wait(self, key: Hashable, seconds: float, act: Fire, background: bool) -> None:
        call = self._clock.after(seconds, lambda: self._fire(key), background=background)
        self._timers[key] = _Timer(self._clock.now + seconds, act, background, call)

    def _fire(self, key: Hashable) -> None:
        if self._is_stalled:
            self._late.append(key)
        elif (timer := self._timers.pop(key, None)) is not None:
            timer.act(max(0.0, self._clock.now - timer.due))


class Died(Exception):
    """The node was killed before it replied."""


class Promise:
    """The reply to a queued step: the part of a future that `flnet.node.performer` uses, without an event loop."""

    __slots__ = ("_broken", "_is_done", "_kept")

    def __init__(self, kept: Callable[[Packet | None], None], broken: Callable[[Exception], None]) -> None:
        """Args:
        kept: called with the reply.
        broken: called with the reason why there is none.
        """
        self._kept, self._broken, self._is_done = kept, broken, False

    def done(self) -> bool:
        """Whether a result or an exception was set."""
        return self._is_done

    def set_result(self, answer: Packet | None) -> None:
        """Set the reply."""
        self._is_done = True
        self._kept(answer)

    def set_exception(self, why: Exception) -> None:
        """Set the reason why there is no reply."""
        if not self._is_done:
            self._is_done = True
            self._broken(why)

    def cancel(self) -> None:
        """Tell the caller that the node was killed."""
        self.set_exception(Died())


class Pause:
    """An awaitable that lasts so many seconds; `Tasks` waits for them by the virtual clock."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __await__(self) -> Generator[float, None, None]:
        if self._seconds > 0:
            yield self._seconds


class Tasks:
    """Runs coroutines that await nothing but `Pause`."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._running: list[Coroutine[Any, None, None]] = []
        self._held: list[tuple[Coroutine[Any, None, None], bool]] = []  # ready, but the loop is stalled
        self._is_stalled = False

    def spawn(self, work: Coroutine[Any, None, None], *, background: bool = False) -> None:
        """Run a coroutine up to its first pause at once, and the rest when its pauses are over.

        Args:
            background: whether its pauses do not keep the simulation running.
        """
        self._running.append(work)
        self._step(work, background)

    def stop(self) -> None:
        """Stall: coroutines that are ready wait until `resume`."""
        self._is_stalled = True

    def resume(self) -> None:
        """End a stall, and continue all coroutines that became ready meanwhile."""
        self._is_stalled = False
        held, self._held = self._held, []
        for work, background in held:
            self._step(work, background)

    def close(self) -> None:
        """Abort all coroutines where they are."""
        running, self._running, self._held = self._running, [], []
        for work in running:
            work.close()

    def _step(self, work: Coroutine[Any, None, None], background: bool) -> None:
        if work not in self._running:
            return  # it was closed
        if self._is_stalled:
            self._held.append((work, background))
            return
        try:
            seconds = work.send(None)
        except StopIteration:
            self._running.remove(work)
        else:
            self._clock.after(seconds, lambda: self._step(work, background), background=background)
