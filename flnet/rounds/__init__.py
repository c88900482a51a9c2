"""One conversation each: averaging with a forced timer, exchange by accuracy."""

from flnet.rounds.averaging import Averaging, Closing
from flnet.rounds.exchange import Exchange

__all__ = ["Averaging", "Closing", "Exchange"]
