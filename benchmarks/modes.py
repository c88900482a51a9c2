"""What it costs to sign, and to speak TLS: 40 MB of parameters fetched from a real node of each kind of mesh."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import httpx
import psutil

from benchmarks.nodes import ROOT, TRAINERS
from benchmarks.options import Options
from benchmarks.report import Row
from benchmarks.trainers.STILL import BYTES
from flnet.fingerprints import fingerprint
from flnet.node.trust import made_of
from flnet.params.blob import Landing
from flnet.protocol.messages import ModelParams
from flnet.security.keys import load_signer, own_key
from flnet.security.signatures import EMPTY, MeshKey
from flnet.security.signing import RequestSigner, RequestVerifier
from flnet.security.tls import Channel
from flnet.wire.http import HttpTransport

MODES = ("open", "keyed", "pinned")
NBYTES = 40_000_000
TIMES = 60
SIGNED = 200  # exchanges, of which the mean is one figure
SECRET = "correct horse battery staple"
PATIENCE_S = 60.0


@dataclass
class Side:
    """One node that is fetched from, and what fetches.

    Attributes:
        seconds, processor: of each transfer; the latter of both sides together.
    """

    transport: HttpTransport
    address: str
    path: str
    process: psutil.Process
    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    async def fetch(self) -> None:
        """Fetch the parameters once."""
        landing = Landing(lambda head, total: True, 2 * NBYTES, 64 * 1024)
        before, begun = self._cpu(), time.perf_counter()
        await self.transport.download(self.address, self.path, landing)
        self.seconds.append(time.perf_counter() - begun)
        self.processor.append(self._cpu() - before)

    def _cpu(self) -> float:
        return processor_of(self.process) + time.process_time()


def processor_of(process: psutil.Process) -> float:
    """Seconds of processor time that its threads have had; to the microsecond on Linux, else to the tick."""
    try:
        threads = [schedstat.read_text() for schedstat in Path(f"/proc/{process.pid}/task").glob("*/schedstat")]
        return sum(int(words.split()[0]) for words in threads) / 1e9
    except (OSError, ValueError, IndexError):
        times = process.cpu_times()
        return times.user + times.system


def run(options: Options) -> None:
    """All kinds, in turns; then what signing takes alone."""
    asyncio.run(_run(options))


async def _run(options: Options) -> None:
    with _sides(options) as sides:
        for number in range(options.times(TIMES) + 1):
            for side in sides.values():
                await side.fetch()
                if not number:  # connections are made, signatures asked for
                    side.seconds.clear()
                    side.processor.clear()
        for side in sides.values():
            await side.transport.close()
    plain = sides["open"]
    for mode, side in sides.items():
        beside = (plain.seconds, plain.processor) if mode != "open" else ((), ())
        for what, ours, theirs in (("", side.seconds, beside[0]), (", processor", side.processor, beside[1])):
            name, note = f"40 MB from a node of a mesh that is {mode}{what}", "over loopback, both sides here"
            options.report.add(Row(name, "s", ours, theirs, "an open mesh" if theirs else "", note=note))
    times = len(plain.processor)
    for mode, mesh in (("keyed", MeshKey(SECRET)), ("pinned", None)):
        ours = [signing(options.place("modes") / f"{mode}-here", mesh) for _ in range(times)]
        name, note = (
            f"signing and checking a request and its answer, {mode}, processor",
            "no digest of content in it",
        )
        options.report.add(Row(name, "s", ours, plain.processor, "such a transfer, processor", 0.03, note=note))
    name, note = "looking at the digest of 40 MB, processor", "in a thread, without Python's lock"
    options.report.add(Row(name, "s", [digesting() for _ in range(times)], plain.processor, "the same", note=note))


def signing(folder: Path, mesh: MeshKey | None) -> float:
    """Processor time of all four steps of one exchange, the mean of many.

    Args:
        folder: with the key of a node.
        mesh: its key, if it has one.
    """
    own = load_signer(folder)
    seal, verifier = (
        RequestSigner(own, mesh, secrets.token_hex(8)),
        RequestVerifier(own, mesh, lambda: secrets.token_hex(16)),
    )
    path, kind = f"{ModelParams.path}/{'0' * 64}", "application/octet-stream"
    first = seal.request("there", "GET", path, "", EMPTY)
    seal.learn("there", first, 401, {"WWW-Authenticate": verifier.me.challenge}.get)
    begun = time.process_time()
    for _ in range(SIGNED):
        sealed = seal.request("there", "GET", path, "", EMPTY)
        caller = verifier.admit("GET", path, "", sealed.headers.get)
        answer = {"Content-Type": kind, **verifier.answer(caller, 200, kind, None)}
        assert sealed.answered(200, answer.get) is not None
    return (time.process_time() - begun) / SIGNED


def digesting() -> float:
    """Processor time of SHA-256 over as many bytes as are transferred."""
    whole = bytes(NBYTES)
    begun = time.process_time()
    sha256(whole).digest()
    return time.process_time() - begun


@contextmanager
def _sides(options: Options) -> Iterator[dict[str, Side]]:
    started: list[subprocess.Popen[bytes]] = []
    try:
        sides = {}
        for number, mode in enumerate(MODES):
            sides[mode] = _side(options.place("modes"), mode, options.base_port + number, started)
        yield sides
    finally:
        for process in started:
            process.kill()
            process.wait()


def _side(folder: Path, mode: str, port: int, started: list[subprocess.Popen[bytes]]) -> Side:
    node_folder, own_folder = folder / f"{mode}-node", folder / f"{mode}-here"
    for state in (node_folder, own_folder):
        state.mkdir(parents=True)
    keys = own_key(node_folder).text, own_key(own_folder).text
    settings = {"MESH_KEY": SECRET} if mode == "keyed" else {}
    if mode == "pinned":
        settings = {"MESH_MODE": mode, "TRUSTED_PEERS": fingerprint(keys[1])}
    values = {
        "NODE_PORT": port,
        "STATE_PATH": node_folder,
        "TRAINERS_PATH": TRAINERS,
        "TRAINERS": "STILL",
        **settings,
    }
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FLNET_")}
    environ = clean | {f"FLNET_{name}": str(value) for name, value in values.items()}
    environ |= {BYTES: str(NBYTES), "PYTHONPATH": str(ROOT)}
    node = subprocess.Popen([sys.executable, "-m", "flnet", "run"], env=environ, stdout=subprocess.DEVNULL)
    started.append(node)
    digest = _digest(f"{'https' if mode == 'pinned' else 'http'}://127.0.0.1:{port}")
    mesh = MeshKey(SECRET) if mode == "keyed" else None
    seal = made_of(load_signer(own_folder), mesh, keys[0].__eq__ if mode == "pinned" else None).signer
    transport = HttpTransport(
        PATIENCE_S,
        random.Random(0),
        signer=seal if mode != "open" else None,
        channel=Channel(keys[0].__eq__) if mode == "pinned" else None,
    )
    return Side(transport, f"127.0.0.1:{port}", f"{ModelParams.path}/{digest}", psutil.Process(node.pid))


def _digest(url: str) -> str:
    """Of the parameters that the node holds, once it has loaded them."""
    deadline = time.monotonic() + PATIENCE_S
    with httpx.Client(base_url=url, trust_env=False, verify=False) as person:
        while time.monotonic() < deadline:
            try:
                digest = person.get("/jobs/STILL").json().get("digest")
            except httpx.TransportError:
                digest = None
            if digest:
                return str(digest)
            time.sleep(0.2)
    raise RuntimeError(f"the node at {url} has loaded nothing")
