"""What the network and the nodes do to a simulated run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Weather:
    """Faults of a run that happen by chance; probabilities in [0, 1], durations in seconds.

    What happens at a certain moment (cuts, crashes, broken disks) stands in a schedule instead; see schedule.py.

    Attributes:
        delay: shortest and longest way of a message; messages overtake each other where these differ.
        lose_request: a message is lost; its sender knows after `give_up`.
        lose_reply: the message is handled, but its sender believes it lost.
        duplicate: a message arrives twice.
        corrupt: a request, a reply or a fetched model has another byte somewhere.
        fail_training: a local training ends without a result.
        training: shortest and longest local training.
        saving: shortest and longest save; what follows it waits, and so does all that the node hears.
        give_up: until the sender of a lost message notices.
        digests: share of the nodes that name models by digest and fetch them; the others send all of them.
        push_bytes: larger updates of such nodes are offered, and fetched.
        fail_fetch: a fetch ends without a result.
    """

    delay: tuple[float, float] = (0.001, 0.05)
    lose_request: float = 0.0
    lose_reply: float = 0.0
    duplicate: float = 0.0
    corrupt: float = 0.0
    fail_training: float = 0.0
    training: tuple[float, float] = (0.5, 3.0)
    saving: tuple[float, float] = (0.0, 0.0)
    give_up: float = 5.0
    digests: float = 0.0
    push_bytes: int = 0
    fail_fetch: float = 0.0

    @property
    def is_calm(self) -> bool:
        """Whether every message arrives, whole, before a probe is given up."""
        lost = self.lose_request + self.lose_reply + self.corrupt
        return lost == 0 and 2 * self.delay[1] + self.saving[1] < 0.5
