"""Asks a policy from time to time whether this node should start a round by itself."""

from __future__ import annotations

import asyncio

from flnet.events import RoundTriggered
from flnet.node.core import NodeCore
from flnet.node.timers import Deliver
from flnet.params import Rng
from flnet.policies import Policy


async def ask_policy(core: NodeCore, policy: Policy, rng: Rng, deliver: Deliver, every: float) -> None:
    """Ask for every job that is between rounds, every `every` seconds, until cancelled.

    A job that cannot start a round when the event reaches it refuses, as it does when a person asks.
    """
    while True:
        await asyncio.sleep(every)
        for trainer, job in core.jobs.items():
            if not job.busy and policy(job.view(), rng):
                deliver(trainer, RoundTriggered())
