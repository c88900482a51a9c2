"""A node that lies in what it starts and claims: `python -m tests.threats.liar run ...`, else the same as `flnet run`.

The file that LIE_FILE names says how: "number" starts rounds near the end of all numbers, "base" starts rounds from a
model that is worth nothing, with a standing that no model has, and "claim" says the same of its average.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from flnet.__main__ import main
from flnet.params.params import Params, PeerId
from flnet.protocol.effects import Send
from flnet.protocol.messages import Accuracy, StartTraining
from flnet.protocol.updates import RoundKey
from flnet.rounds.job import Job
from flnet.rounds.round import Round
from flnet.rounds.settings import JobSettings

NUMBER, ROUND, CONTRIBUTORS = 2**53 - 9, 10**6, 10**9


def lie() -> str:
    return Path(os.environ["LIE_FILE"]).read_text()


def garbage(params: Params) -> Params:
    return Params({name: np.full_like(params[name], -3) for name in params})


def lie_from_now_on() -> None:
    """Put lies in place of what an honest node says."""
    start, message, next_key = Round._start, JobSettings.message, Job.next_key

    def started(self: Round, to: Iterable[PeerId], is_again: bool = False) -> Send:
        if lie() == "base":
            model = self._held.current
            self._held.model = model.holding(garbage(model.shared), ROUND, CONTRIBUTORS)
        return start(self, to, is_again)

    def said(self: JobSettings, kind: Any, key: RoundKey, /, **fields: Any) -> Any:
        if kind is Accuracy and lie() == "claim":
            fields |= {"accuracy": 1.0, "contributors": CONTRIBUTORS}
        if kind is StartTraining and lie() == "base":
            fields |= {"base_round": ROUND, "contributors": CONTRIBUTORS}
        return message(self, kind, key, **fields)

    def next_round(self: Job) -> RoundKey:
        return RoundKey(NUMBER, self.settings.my_id) if lie() == "number" else next_key.fget(self)  # type: ignore[attr-defined]

    Round._start = started  # type: ignore[method-assign]
    JobSettings.message = said  # type: ignore[method-assign]
    Job.next_key = property(next_round)  # type: ignore[assignment]


if __name__ == "__main__":
    lie_from_now_on()
    main()
