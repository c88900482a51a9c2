"""What the network and the nodes do to a simulated run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Weather:
    """Faults of a run; probabilities in [0, 1], durations in seconds.

    Attributes:
        delay: shortest and longest way of a message.
        lose_request: a message is lost; its sender knows after `give_up`.
        lose_reply: the message is handled, but its sender believes it lost.
        duplicate: a message arrives twice.
        fail_training: a local training ends without a result.
        training: shortest and longest local training.
        give_up: until the sender of a lost message notices.
    """

    delay: tuple[float, float] = (0.001, 0.05)
    lose_request: float = 0.0
    lose_reply: float = 0.0
    duplicate: float = 0.0
    fail_training: float = 0.0
    training: tuple[float, float] = (0.5, 3.0)
    give_up: float = 5.0
