"""Follows rounds on one or several nodes until every one of them has a result."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping

import click

from flnet.cli.client import NodeClient, View
from flnet.cli.progress import Progress, fingerprint, progress_line
from flnet.cli.results import RoundResult, round_result
from flnet.cli.text import printable
from flnet.errors import PeerTimeout, PeerUnreachable

__all__ = ["Follower", "RoundFailed", "is_open"]

POLL_SECONDS = 0.3
NEWEST = 100  # records of a node among which a result is looked for
AT_REST = ("IDLE", "NO_DATA")


class RoundFailed(click.ClickException):
    """A round ended without a result, or does not move any more; exit code 1."""


def is_open(view: View) -> bool:
    """Whether a series with a goal is under way, of which any node may start the next round."""
    goal = view.get("goal")
    return isinstance(goal, Mapping) and goal.get("state") == "open"


class Follower:
    """Polls the nodes' jobs of one trainer, shows them, and collects the result of each round.

    Args:
        clients: by node id; the first one is the node that was asked for the rounds.
        patience: seconds without any change on any node until a round counts as stuck.
        check: called at each look; raises if there is no point in going on.
        tolerant: bear with a node that does not answer, as long as `patience` lasts; a node that has ended
            is then for `check` to see.
    """

    def __init__(
        self,
        clients: Mapping[str, NodeClient],
        trainer: str,
        progress: Progress,
        *,
        patience: float = math.inf,
        check: Callable[[], None] = lambda: None,
        tolerant: bool = False,
    ) -> None:
        self._clients = clients
        self._trainer = trainer
        self._progress = progress
        self._patience = patience
        self._check = check
        self._tolerant = tolerant
        self._views: dict[str, View] = {}

    def rounds(self, first: int, count: int) -> Iterator[RoundResult]:
        """The results of `count` rounds, each as soon as all nodes have it.

        Raises:
            RoundFailed: a round ended without a result on some node, or is stuck.
        """
        began = time.monotonic()
        for number in range(first, first + count):
            records = self._wait_for(number)
            ended = time.monotonic()
            yield round_result(number, records, ended - began)
            began = ended

    def rounds_of_goal(self, first: int) -> Iterator[RoundResult]:
        """The results of the rounds of a series with a goal, as long as it is under way on the first node.

        Raises:
            RoundFailed: a round ended without a result.
        """
        began, asked = time.monotonic(), next(iter(self._clients))
        for number in itertools.count(first):
            records = self._wait_for(number)
            ended = time.monotonic()
            yield round_result(number, records, ended - began)
            began = ended
            view = self.look()[asked]
            if not is_open(view) and view.get("current_round", -1) <= number:
                return

    def look(self) -> Mapping[str, View]:
        """The jobs as they are now, also shown."""
        self._check()
        for node, client in self._clients.items():
            try:
                self._views[node] = client.job(self._trainer)
            except (PeerUnreachable, PeerTimeout):
                if not self._tolerant:
                    raise
        self._progress.show(self._views)
        return self._views

    def _wait_for(self, number: int) -> Mapping[str, View | None]:
        records: dict[str, View | None] = dict.fromkeys(self._clients)
        moved, last, rested = time.monotonic(), None, False
        while True:
            resting = self._at_rest()  # looked at first: a result that comes after it is not missed
            self._collect(number, records)
            missing = [node for node, record in records.items() if record is None]
            if not missing:
                return records
            if resting and rested:
                raise RoundFailed(self._without_result(number, missing))
            now, state = time.monotonic(), fingerprint(self._views)
            moved, last = (now, state) if state != last else (moved, last)
            if now - moved > self._patience:
                raise RoundFailed(
                    f"round {number} has not moved for {self._patience:g} s: {progress_line(self._views)}"
                )
            rested = resting
            time.sleep(POLL_SECONDS)

    def _at_rest(self) -> bool:
        views = self.look().values()
        return len(views) == len(self._clients) and all(
            view.get("phase") in AT_REST and not view.get("rounds_left") and not is_open(view) for view in views
        )

    def _collect(self, number: int, records: dict[str, View | None]) -> None:
        """Look for the round in the histories of the nodes that may be through with it."""
        for node, view in self._views.items():
            reached = view.get("current_round", -1)
            over = reached > number or (reached == number and view.get("phase") in AT_REST)
            if records[node] is None and over:
                records[node] = self._record(node, number)

    def _record(self, node: str, number: int) -> View | None:
        try:
            history = self._clients[node].history(self._trainer, last=NEWEST)
        except (PeerUnreachable, PeerTimeout):
            if not self._tolerant:
                raise
            return None
        return next((record for record in reversed(history) if record.get("round") == number), None)

    def _without_result(self, number: int, missing: list[str]) -> str:
        reasons = []
        for node in missing:
            view = self._views.get(node, {})
            reason = view.get("error") or view.get("outcome") or "no reason given"
            reasons.append(f"{printable(node)} ({printable(reason)})")
        return f"round {number} ended without a result on " + ", ".join(reasons)
