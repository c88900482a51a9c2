"""What a node answers is what its /openapi.json says, as far as schemathesis can tell.

    python -m tests.fuzz.contract --cases 50

starts a node of its own and lets schemathesis' command line compare statuses, types, bodies and methods with the
description, and whether what the description forbids is refused. Reading must also accept whatever it allows; what
bodies say has rules between their fields, which no schema holds. The exit code is 0 if nothing differs.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.api import STREAMS, started
from tests.mesh_name import MESH_HEADERS
from tests.processes.harness import Harness, RealNode

SECONDS = 1800
# One path, {digest} of parameters that GET fetches, also fits the paths below it, where only POST is described.
NOT_CHECKED = "positive_data_acceptance,allow_header_conformance"
# A body that is too long is refused for that, before what else is wrong in it is read.
CONFIG = """
[checks]
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429, "5xx"]
"""


class Pass(NamedTuple):
    """One run of schemathesis.

    Attributes:
        is_fine: whether it found nothing.
        cases: how many requests it sent.
        told: what it printed.
    """

    is_fine: bool
    cases: int
    told: str


def compared(node: RealNode, folder: Path, cases: int) -> list[Pass]:
    """Let schemathesis compare all operations, and then what reading accepts."""
    everything = ("--checks", "all", "--exclude-checks", NOT_CHECKED, "--phases", "coverage,fuzzing")
    reading = ("--checks", "positive_data_acceptance", "--include-method", "GET", "--phases", "fuzzing")
    return [_run(node, folder, cases, *options) for options in (everything, reading)]


def _run(node: RealNode, folder: Path, cases: int, *options: str) -> Pass:
    command = [
        sys.executable,
        "-m",
        "schemathesis.cli",
        "run",
        f"http://127.0.0.1:{node.port}/openapi.json",
        *options,
    ]
    command += [part for path in sorted(STREAMS) for part in ("--exclude-path", path)]
    command += [part for name, value in MESH_HEADERS.items() for part in ("-H", f"{name}: {value}")]
    command += [
        "-n",
        str(cases),
        "--seed",
        "1",
        "--continue-on-failure",
        "--generation-database",
        "none",
        "--no-color",
    ]
    (folder / "schemathesis.toml").write_text(CONFIG, "utf-8")
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)
    counted = re.search(r"([0-9]+) generated", ended.stdout)
    return Pass(ended.returncode == 0, int(counted[1]) if counted else 0, ended.stdout + ended.stderr)


def main() -> int:
    """Compare, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=50, help="for each operation")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as ending:
        made = Harness(Path(folder))
        ending.callback(made.stop)
        node = started(made)
        passes = compared(node, Path(folder), asked.cases)
        for each in passes:
            print(f"{each.cases} requests; {'nothing differs' if each.is_fine else each.told}")
        faults = [line for line in made.log(0).read_text("utf-8").splitlines() if "Traceback" in line]
        print("\n".join(faults))
        return 0 if all(each.is_fine for each in passes) and not faults else 1


if __name__ == "__main__":
    sys.exit(main())
