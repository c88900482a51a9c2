"""Three real nodes train round after round while one of them is attacked in fourteen ways, one after the other.

    python -m tests.threats.one_by_one

prints for each attack how it was refused, how often a person was told of it, how many rounds of all three ended
meanwhile and how long one took, against those of the quiet seconds just before, what the attacked node's memory
was, and how long GET /health took for a person. The exit code is 1 if an attack got in or was not answered, if no
round of all three ended during it, if a person was told of it without end, or if the memory grew too far.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from flnet.security.signatures import MeshKey
from flnet.web.body import BASE_SECONDS
from flnet.web.server import raise_file_limit
from tests.processes.harness import SLOW_TRAINER, Harness, until
from tests.threats.attacker import Target
from tests.threats.attacks import HELD, REPEATED, again_and_again
from tests.threats.watching import Answers, Found, Watcher, faults, table

MESH_KEY, TOKEN, OLD_TOKEN = "correct horse battery staple", "0123456789abcdefghij", "abcdefghij0123456789"
SECONDS = 8.0  # that an attack goes on
ROUNDS = 100_000  # more than end in any time
TRAINER = (
    SLOW_TRAINER.replace("GO = ", 'DATA_PLACE = "numbers"\nGO = ')
    .replace("np.zeros(4,", "np.zeros(50_000,")  # so that bodies of a megabyte are read
    .replace("        done = 0\n", "        time.sleep(0.2)\n        done = 0\n")
)
HELD_SECONDS = BASE_SECONDS + 10.0  # in which slow requests are cut, in their heads or their bodies


class Besieged(Harness):
    """Three nodes with a key, of which the first trusts nobody because of where he is."""

    def __init__(self, folder: Path, round_seconds: float = 0.2, **more: str) -> None:
        """Args:
        round_seconds: that each training takes.
        more: settings of all nodes.
        """
        super().__init__(folder)
        (self.trainers / "SLOW.py").write_text(TRAINER.replace("time.sleep(0.2)", f"time.sleep({round_seconds})"))
        self.go()
        self.token = folder / "token"
        self.token.write_text(OLD_TOKEN)
        careful = {"TRUST_LOOPBACK": "false", "OPERATOR_TOKEN_FILE": str(self.token)}
        for settings in (careful, {}, {}):
            data = folder / f"data{len(self.nodes)}"
            self.start(
                MESH_KEY=MESH_KEY,
                DATASETS_PATH=str(data),
                LOGGING_LEVEL="INFO",
                ALLOWED_NETWORKS="127.0.0.0/8",
                MAX_IMPORT_GIGABYTES="0.1",
                **settings,
                **more,
            )
        self.nodes[0].http.headers["Authorization"] = f"Bearer {OLD_TOKEN}"

    def target(self) -> Target:
        """The first node, once its token was replaced."""
        first, other, _ = self.nodes
        assert first.http.put("/jobs/SLOW/params", json={"e": 1}).status_code != 401
        self.token.write_text(TOKEN)
        first.http.headers["Authorization"] = f"Bearer {TOKEN}"
        return Target(first.port, other.port, MeshKey(MESH_KEY), TOKEN, OLD_TOKEN)


@contextmanager
def besieged(folder: Path) -> Iterator[Besieged]:
    """Three nodes that train round after round."""
    made = Besieged(folder)
    try:
        made.ready()
        yield made
    finally:
        made.stop()


def attacks(at: Target, seconds: float, per_second: float) -> Iterator[tuple[str, Callable[[], Answers]]]:
    """All attacks by name; each takes some seconds when it is called."""
    for name, make in REPEATED.items():
        yield name, lambda make=make: again_and_again(make(at), seconds, per_second)  # type: ignore[misc]
    for name, hold in HELD.items():
        yield name, partial(hold, at, seconds * HELD_SECONDS / SECONDS)


def attacked(made: Besieged, seconds: float, per_second: float, only: str = "") -> Iterator[Found]:
    """What each attack did.

    Args:
        seconds: each attack goes on for; half as long it is quiet before.
        per_second: attempts.
        only: the name of one attack; empty for all.
    """
    at, (first, other, _) = made.target(), made.nodes
    assert other.trigger(rounds=ROUNDS).status_code == 202
    until(lambda: len(other.history()) >= 3, "three rounds")
    with Watcher(first, other, made.folder / "n0.log") as watcher:
        for name, attack in attacks(at, seconds, per_second):
            if only in ("", name):
                watcher.quiet(seconds / 2)
                yield watcher.during(name, attack)


def main() -> int:
    """Attack, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="of each attack; five times that for slow ones"
    )
    parser.add_argument("--per-second", type=float, default=100.0, help="attempts")
    parser.add_argument("--only", default="", choices=["", *REPEATED, *HELD])
    asked = parser.parse_args()
    raise_file_limit()
    with tempfile.TemporaryDirectory() as folder, besieged(Path(folder)) as made:
        found = []
        for one in attacked(made, asked.seconds, asked.per_second, asked.only):
            found.append(one)
            print(one.name, "...", file=sys.stderr, flush=True)
        wrong = [words for one in found for words in faults(one)]
        print(table(found))
        print("\n".join(wrong) or "nothing got in, and the mesh trained on")
        return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
