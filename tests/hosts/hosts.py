"""Several hosts on one network, each a network namespace, with a switch between them."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.hosts.namespaces import PREFIX, create, inside, is_in, only_run
from tests.hosts.rules import Rule, Rules
from tests.hosts.switch import Switch
from tests.mesh_name import MESH_HEADERS

NETWORK, BITS = "10.66.0.0", 24  # exists inside of these namespaces only
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Host:
    """One namespace with an address on the network."""

    number: int
    namespace: str
    address: str

    def start(self, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Run a program on this host; the process is the program itself, and is there when this returns."""
        with log.open("ab") as output:
            process = subprocess.Popen(
                ["ip", "netns", "exec", self.namespace, *command],
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        while process.poll() is None and not is_in(process.pid, self.namespace):
            time.sleep(0.002)  # a caller that removes the host before it has entered would not find it there
        return process

    def socket(self, kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
        """A socket of this host, for a test that plays a program there."""
        with inside(self.namespace):
            return socket.socket(socket.AF_INET, kind)

    def client(self, port: int) -> httpx.Client:
        """A client on this host, for its own loopback: no rule of the switch touches it."""
        address = f"http://{LOOPBACK}:{port}"
        return httpx.Client(base_url=address, headers=MESH_HEADERS, transport=_Inside(self), timeout=60)


@dataclass(frozen=True)
class Network:
    """The hosts, and what befalls packets between them."""

    hosts: Sequence[Host]
    switch: Switch

    @property
    def rules(self) -> Rules:
        """What befalls packets; changes hold at once."""
        return self.switch.rules


@contextmanager
def network(count: int, seed: int, everywhere: Rule | None = None) -> Iterator[Network]:
    """So many hosts; everything that was made is gone afterwards, processes included."""
    with only_run(), connected(count, seed, everywhere) as made:
        yield made


@contextmanager
def connected(count: int, seed: int, everywhere: Rule | None = None) -> Iterator[Network]:
    """The hosts and their switch, for a caller that holds the lock."""
    with ExitStack() as stack:
        switch = Switch(Rules(everywhere), seed)
        stack.callback(switch.close)
        hosts = []
        for number in range(count):
            address = NETWORK.rpartition(".")[0] + f".{number + 1}"
            host = Host(number, f"{PREFIX}{number}", address)
            create(host.namespace)
            switch.plug_in(host.namespace, address, BITS)
            hosts.append(host)
        switch.start()
        yield Network(hosts, switch)


class _Connection(http.client.HTTPConnection):
    def __init__(self, host: Host, address: str, port: int, timeout: float | None) -> None:
        super().__init__(address, port, timeout=timeout)
        self._place = host

    def connect(self) -> None:
        self.sock = self._place.socket()
        self.sock.settimeout(self.timeout)
        self.sock.connect((self.host, self.port))


class _Inside(httpx.BaseTransport):
    """Connects from within a host, one connection for each request."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        seconds = request.extensions.get("timeout", {}).get("read")
        url = request.url
        connection = _Connection(self._host, url.host, url.port or 80, seconds)
        headers = {name: value for name, value in request.headers.items() if name.lower() != "connection"}
        try:
            path = url.raw_path.decode("ascii")
            connection.request(request.method, path, request.read(), {**headers, "Connection": "close"})
            answer = connection.getresponse()
            return httpx.Response(answer.status, headers=answer.getheaders(), content=answer.read())
        except (OSError, http.client.HTTPException) as exc:
            raise httpx.ConnectError(str(exc), request=request) from exc
        finally:
            connection.close()
