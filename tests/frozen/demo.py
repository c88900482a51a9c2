"""Runs `flnet demo --nodes 3 --rounds 2 --exit` with revision 1a28d2c and with this checkout: the models must be equal.

    python -m tests.frozen.demo [--trainer MNIST]

Equal seeds give equal models on one machine. Another processor or another build of torch may give others, so the
digests are compared with those of the old revision here and now, not with recorded ones. FLNET_OLD_TREE and
FLNET_OLD_PYTHON are those of `mixed_mesh`.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.frozen.mixed_mesh import old_tree, packages_of
from tests.frozen.places import EARLIER, ROOT, free_port

DEMO = ("demo", "--nodes", "3", "--rounds", "2", "--exit")
SECONDS = 300


def digests(python: str, tree: Path, trainer: str) -> list[str]:
    """The beginning of the model's digest after every round, on all nodes."""
    with tempfile.TemporaryDirectory() as folder:
        packages = packages_of(tree, Path(folder) / "packages")
        clean = {name: value for name, value in os.environ.items() if not name.startswith("FLNET_")}
        ended = subprocess.run(
            [python, "-m", "flnet", *DEMO, "--trainer", trainer, "--base-port", str(free_port())],
            env={**clean, "PYTHONPATH": f"{packages}{os.pathsep}{EARLIER}"},
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return list(dict.fromkeys(re.findall(r"\b([0-9a-f]{10}) on all 3 nodes", ended.stdout)))  # told twice


def compare(trainer: str) -> list[str]:
    """The digests of both versions, which are equal.

    Raises:
        AssertionError: they are not.
    """
    with old_tree() as tree:
        old = digests(os.environ.get("FLNET_OLD_PYTHON") or sys.executable, tree, trainer)
    new = digests(sys.executable, ROOT, trainer)
    assert len(old) == 2, old
    assert old == new, f"{trainer}: {old} before, {new} now"
    return new


def main() -> None:
    """Compare."""
    parser = argparse.ArgumentParser(description="the digests of a demo, before and now")
    parser.add_argument("--trainer", action="append", help="MNIST and SMALL_DIGITS without it")
    for trainer in parser.parse_args().trainer or ("MNIST", "SMALL_DIGITS"):
        print(f"{trainer}: {', '.join(compare(trainer))}", flush=True)


if __name__ == "__main__":
    main()
