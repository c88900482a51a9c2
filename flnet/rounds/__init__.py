"""One conversation each: averaging with a forced timer, exchange by accuracy."""

from flnet.rounds.averaging import Averaging, Closing
from flnet.rounds.exchange import Exchange
from flnet.rounds.pace import Paces, wait_for
from flnet.rounds.refolding import Refolding

__all__ = ["Averaging", "Closing", "Exchange", "Paces", "Refolding", "wait_for"]
