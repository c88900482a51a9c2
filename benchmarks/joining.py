"""A model that a node downloads when it joins: from three peers at once, compared with one of them, on slow uplinks.

Each peer is a host of its own whose link carries 100 Mbit/s (`benchmarks.limited_links`); the link of the node that
joins is not limited.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import secrets
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from benchmarks.bounds import BOUNDS
from benchmarks.limited_links import Host, address_of, can_limit, limited_hosts
from benchmarks.nodes import ANSWER_S, Ask, Mesh, end, environment
from benchmarks.options import Options
from benchmarks.report import Row
from benchmarks.topology import start_on
from benchmarks.trainers.STILL import BYTES
from flnet.cli.client import NodeClient
from flnet.node.parts_download import PartsDownload
from flnet.params.params import Digest, Params, PeerId
from flnet.protocol.messages import ModelParams
from flnet.rounds.parts import PART_BYTES
from flnet.store.partial_downloads import FolderDownloads
from flnet.wire.binary_codec import BinaryCodec
from flnet.wire.http import HttpTransport

NBYTES = 40_000_000
MBIT, PEERS = 100, 3
MESH = "joining"


def run(options: Options) -> None:
    """From three peers, and from one, in turns."""
    words = f"40 MB for a node that joins, from {PEERS} peers on {MBIT} Mbit/s"
    if not can_limit():
        options.report.add(Row(words, "s", [], note="network namespaces cannot be made here"))
        return
    with limited_hosts(PEERS, MBIT) as (outside, hosts):
        arguments = [str(options.times(5)), str(options.place(MESH)), *(host.namespace for host in hosts)]
        command = outside.inside([sys.executable, "-m", "benchmarks.joining", *arguments])
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        options.report.add(Row(words, "s", [], note=f"ended with code {done.returncode}; see above"))
        return
    several, one = json.loads(done.stdout)
    least = NBYTES * 8 / (PEERS * MBIT * 1e6)
    options.report.add(Row(words, "s", several, one, "from one of them", BOUNDS["joining.peers"]))
    options.report.add(Row(words, "s", several, [least], "bytes / bandwidth", BOUNDS["joining.least"]))


def main() -> None:
    """On the host at the bridge: start a node on each of the others, download from them, print the seconds as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("times", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("namespaces", nargs="+")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    token, count = secrets.token_hex(16), len(asked.namespaces)
    ask = Ask("STILL", count, {"mesh_name": MESH}, {BYTES: str(NBYTES)})
    with environment(ask), ExitStack() as stack:
        nodes = []
        for number, name in enumerate(asked.namespaces):
            nodes.append(start_on(Host(name, address_of(number)), number, count, asked.folder, token))
            stack.callback(end, nodes[-1].process)
        clients = [stack.enter_context(NodeClient(node.address, ANSWER_S, token)) for node in nodes]
        Mesh(nodes, clients, ask, {"Authorization": f"Bearer {token}"}).wait_until_ready()
        digest = Digest(str(clients[0].job("STILL")["digest"]))
        print(
            json.dumps(asyncio.run(measured([node.address for node in nodes], digest, asked.folder, asked.times)))
        )


async def measured(
    addresses: list[str], digest: Digest, folder: Path, times: int
) -> tuple[list[float], list[float]]:
    """Seconds of each download from all of these, and from one."""
    figures: tuple[list[float], list[float]] = ([], [])
    for number in range(times):
        for seconds, sources in zip(figures, (addresses, [addresses[number % len(addresses)]]), strict=True):
            seconds.append(await downloaded(sources, digest, folder / "downloads"))
    return figures


async def downloaded(addresses: list[str], digest: Digest, folder: Path) -> float:
    """Seconds of a download, until the parameters are here and have the digest."""
    transport, downloads = HttpTransport(60.0, random.Random(0), mesh=MESH), FolderDownloads(folder)
    begun = time.perf_counter()
    kept = downloads.open(digest, PART_BYTES)

    async def decode() -> Params:
        body = memoryview(bytearray(kept.body_bytes or 0))
        kept.read_into(body)
        params = BinaryCodec().decode_params(body)
        if params.digest != digest:
            raise RuntimeError("other parameters came than those asked for")
        return params

    sources = {PeerId(address): address for address in addresses}
    path = f"{ModelParams.path}/{digest}"
    download = PartsDownload(
        transport,
        path,
        sources,
        kept,
        2 * NBYTES,
        lambda *_: True,
        decode,
        lambda peer, exc: print(exc, file=sys.stderr),
    )
    await download.run()
    downloads.close(digest, kept, is_over=True)
    seconds = time.perf_counter() - begun
    await transport.close()
    return seconds


if __name__ == "__main__":
    main()
