"""What a simulated node does beside its events: coroutines that wait by the virtual clock."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from flnet.messages import Packet
from flnet.simulation.clock import VirtualClock


class Died(Exception):
    """The node was killed before it answered."""


class Promise:
    """The answer of a step that stands in line: as much of a future as `flnet.node.line` uses, without a loop."""

    __slots__ = ("_broken", "_is_done", "_kept")

    def __init__(self, kept: Callable[[Packet | None], None], broken: Callable[[Exception], None]) -> None:
        """Args:
        kept: takes the answer, as soon as it may be given.
        broken: takes why there is none.
        """
        self._kept, self._broken, self._is_done = kept, broken, False

    def done(self) -> bool:
        """Whether it is kept or broken."""
        return self._is_done

    def set_result(self, answer: Packet | None) -> None:
        """Give the answer."""
        self._is_done = True
        self._kept(answer)

    def set_exception(self, why: Exception) -> None:
        """There is no answer."""
        if not self._is_done:
            self._is_done = True
            self._broken(why)

    def cancel(self) -> None:
        """The node was killed."""
        self.set_exception(Died())


class Tasks:
    """Runs coroutines that wait for `flnet.simulation.disk.Pause` alone."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._running: list[Coroutine[Any, None, None]] = []
        self._held: list[tuple[Coroutine[Any, None, None], bool]] = []  # could go on, but the loop stands still
        self._stands_still = False

    def spawn(self, work: Coroutine[Any, None, None], *, background: bool = False) -> None:
        """Run a coroutine as far as it gets at once, and the rest when its pauses are over.

        Args:
            background: whether its pauses do not keep the simulation going.
        """
        self._running.append(work)
        self._go_on_with(work, background)

    def stop(self) -> None:
        """The loop stands still: what could go on does not."""
        self._stands_still = True

    def go_on(self) -> None:
        """The loop goes on, and so does all that could have gone on meanwhile."""
        self._stands_still = False
        held, self._held = self._held, []
        for work, background in held:
            self._go_on_with(work, background)

    def close(self) -> None:
        """End all coroutines where they are."""
        running, self._running, self._held = self._running, [], []
        for work in running:
            work.close()

    def _go_on_with(self, work: Coroutine[Any, None, None], background: bool) -> None:
        if work not in self._running:
            return  # it was closed
        if self._stands_still:
            self._held.append((work, background))
            return
        try:
            seconds = work.send(None)
        except StopIteration:
            self._running.remove(work)
        else:
            self._clock.after(seconds, lambda: self._go_on_with(work, background), background=background)
