"""Asks all peers what they say of themselves, for the page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from flnet.errors import TransportError
from flnet.node.base import View
from flnet.transport import Transport

SECONDS = 2.0  # a page should not wait longer for a peer


async def survey(transport: Transport, peers: Sequence[View]) -> Sequence[View]:
    """GET /info of every peer at once; one view per peer, in the order given."""
    return await asyncio.gather(*(_ask(transport, peer) for peer in peers))


async def _ask(transport: Transport, peer: View) -> View:
    answer: dict[str, Any] = {"id": peer["id"], "address": peer["address"], "info": None, "error": None}
    if peer["state"] != "alive":
        return {**answer, "error": peer["reason"] or "does not answer"}
    try:
        async with asyncio.timeout(SECONDS):
            reply = await transport.fetch(peer["address"], "/info")
        info = json.loads(reply.body)
    except TimeoutError:
        return {**answer, "error": f"no answer in {SECONDS:g} s"}
    except (TransportError, ValueError, RecursionError) as exc:
        return {**answer, "error": f"no usable answer: {exc}"}
    if reply.status != 200 or not isinstance(info, dict):
        return {**answer, "error": f"answered {reply.status} instead of its state"}
    return {**answer, "info": info}
