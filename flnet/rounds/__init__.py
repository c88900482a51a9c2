"""One conversation each: averaging with a forced timer, exchange by accuracy; and versions where there is none."""

from flnet.rounds.averaging import Averaging, Closing
from flnet.rounds.exchange import Exchange
from flnet.rounds.pace import Paces, wait_for
from flnet.rounds.refolding import Refolding
from flnet.rounds.versions import Merged, Versions, common_start

__all__ = [
    "Averaging",
    "Closing",
    "Exchange",
    "Merged",
    "Paces",
    "Refolding",
    "Versions",
    "common_start",
    "wait_for",
]
