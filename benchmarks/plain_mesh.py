"""The plain mesh: processes that train, send their raw update to all others, take the mean, measure; nothing else.

Two ways to send: over Quart, Hypercorn and httpx with streamed bodies, or over bare sockets. All processes are
forked from one that has imported PyTorch. It runs in a process of its own: python -m benchmarks.plain_mesh W2
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import httpx
import numpy as np
import torch
from hypercorn.asyncio import serve
from hypercorn.config import Config
from quart import Quart, Response, request

from benchmarks.forks import HOST, forked, listeners
from benchmarks.machine import proportional_mb
from benchmarks.socket_mesh import SocketMesh
from benchmarks.trainers._work import WORKS, Bench, Work

PIECE = 1024 * 1024  # bytes of a body that are handed over at a time
TIMEOUT_S = 120.0


class HttpMesh:
    """One process's server and client."""

    def __init__(self, index: int, listening: Sequence[socket.socket]) -> None:
        self._index, self._listening = index, listening
        self._urls = [f"http://{HOST}:{s.getsockname()[1]}/updates" for s in listening]
        self._came: defaultdict[int, dict[int, memoryview]] = defaultdict(dict)
        self._more = asyncio.Event()
        self._stop = asyncio.Event()

    async def __aenter__(self) -> HttpMesh:
        config = Config()
        config.bind = [f"fd://{self._listening[self._index].fileno()}"]
        config.accesslog = config.errorlog = None
        config.graceful_timeout = 1.0
        config.keep_alive_timeout = TIMEOUT_S  # or rounds on a busy machine find their connections closed
        self._server = asyncio.create_task(serve(self._app(), config, shutdown_trigger=self._stop.wait))
        self._client = httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._client.aclose()
        self._stop.set()
        await asyncio.wait({self._server}, timeout=3.0)

    def _app(self) -> Quart:
        app = Quart("plain_mesh")
        app.config["MAX_CONTENT_LENGTH"] = app.config["BODY_TIMEOUT"] = None

        @app.post("/updates/<int:number>/<int:sender>")
        async def take(number: int, sender: int) -> Response:
            body, at = np.empty(request.content_length or 0, np.uint8).data, 0
            async for piece in request.body:
                body[at : at + len(piece)] = piece
                at += len(piece)
            self._came[number][sender] = body
            self._more.set()
            return Response(b"")

        return app

    async def exchange(self, number: int, payload: memoryview) -> list[memoryview]:
        """Send the payload to all others, and wait for theirs."""
        others = [url for index, url in enumerate(self._urls) if index != self._index]
        await asyncio.gather(*(self._send(f"{url}/{number}/{self._index}", payload) for url in others))
        while len(self._came[number]) < len(others):
            self._more.clear()
            await self._more.wait()
        came = self._came.pop(number)
        return [came[peer] for peer in sorted(came)]

    async def _send(self, url: str, payload: memoryview) -> None:
        async def pieces() -> AsyncIterator[bytes]:
            for at in range(0, len(payload), PIECE):
                yield payload[at : at + PIECE]  # type: ignore[misc]  # h11 takes any buffer

        reply = await self._client.post(url, content=pieces(), headers={"Content-Length": str(len(payload))})
        reply.raise_for_status()


class Member:
    """What one process of either mesh does besides sending."""

    def __init__(self, work: Work, index: int) -> None:
        self._bench = Bench(work, index)
        self._index, self._flat = index, self._bench.initial(0)
        self.ends: list[float] = []
        self.cpu: list[float] = []  # processor time of this process at those ends
        self.accuracy = 0.0

    def train(self, number: int) -> memoryview:
        """One local training; the bytes of the update."""
        self._bench.train(self._flat, seed=1000 * number + self._index)
        return self._flat.numpy().data.cast("B")

    def close_round(self, updates: Sequence[memoryview]) -> None:
        """The mean of all updates, and its measure."""
        for update in updates:
            self._flat += torch.from_numpy(np.frombuffer(update, np.float32))
        self._flat /= len(updates) + 1
        self.accuracy = self._bench.accuracy(self._bench.views(self._flat))
        self.ends.append(time.monotonic())
        self.cpu.append(time.process_time())

    def result(self) -> dict[str, Any]:
        """What the parent wants to know."""
        return {
            "ends": self.ends,
            "cpu": self.cpu[-1] - self.cpu[0],
            "accuracy": self.accuracy,
            "mb": proportional_mb(os.getpid()),
        }


def _over_http(work: Work, index: int, listening: Sequence[socket.socket], rounds: int) -> dict[str, Any]:
    async def run() -> dict[str, Any]:
        member = Member(work, index)
        async with HttpMesh(index, listening) as mesh:
            for number in range(rounds):
                member.close_round(await mesh.exchange(number, member.train(number)))
            result = member.result()
            await mesh.exchange(rounds, memoryview(b"end"))  # nobody leaves while others still send
        return result

    return asyncio.run(run())


def _over_sockets(work: Work, index: int, listening: Sequence[socket.socket], rounds: int) -> dict[str, Any]:
    member = Member(work, index)
    mesh = SocketMesh(index, listening)
    for number in range(rounds):
        member.close_round(mesh.exchange(member.train(number)))
    mesh.exchange(memoryview(b"end"))
    return member.result()


@dataclass(frozen=True)
class PlainRun:
    """What one mesh did.

    Attributes:
        start_s: seconds until the first round was closed everywhere.
        rounds_s: of every round after it.
        cpu_s: processor time of all processes, per round.
        accuracy: at the end, the mean of all processes.
        mb: memory of all processes, shared pages counted once (sum of PSS).
    """

    start_s: float
    rounds_s: list[float]
    cpu_s: float
    accuracy: float
    mb: float


def run(work: Work, way: str, rounds: int) -> PlainRun:
    """All rounds of one mesh; way is "http" or "sockets"."""
    started = time.monotonic()
    listening = listeners(work.nodes)
    member = {"http": _over_http, "sockets": _over_sockets}[way]
    results = forked(work.nodes, lambda index: member(work, index, listening, rounds))
    ends = [max(together) for together in zip(*(result["ends"] for result in results), strict=True)]
    return PlainRun(
        ends[0] - started,
        [after - before for before, after in pairwise(ends)],
        sum(result["cpu"] for result in results) / (rounds - 1),
        sum(result["accuracy"] for result in results) / len(results),
        sum(result["mb"] for result in results),
    )


def main() -> None:
    """One mesh, its result as one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", choices=WORKS)
    parser.add_argument("--way", choices=("http", "sockets"), default="http")
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--rounds", type=int)
    asked = parser.parse_args()
    work = WORKS[asked.work]
    work = replace(work, nodes=asked.nodes or work.nodes)
    print(json.dumps(asdict(run(work, asked.way, (asked.rounds or work.rounds) + 1))))


if __name__ == "__main__":
    main()
