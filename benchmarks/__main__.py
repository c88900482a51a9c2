"""python -m benchmarks [name ...]: measures, and prints one table of ratios."""

from __future__ import annotations

import argparse
import compileall
import importlib
import json
import os
import sys
import time
import traceback
from pathlib import Path

from benchmarks.machine import described, in_words, load
from benchmarks.options import Options
from benchmarks.report import Report, Row, table
from flnet.temporary import temporary_folder

PIECES = {
    "floors": "bare sockets, and the plain mesh",
    "works": "the three works, compared with the plain mesh",
    "exchange": "a round without training, compared with bare transfers",
    "wire": "bytes of a round, counted by the loopback device",
    "modes": "40 MB between nodes of open, keyed and pinned meshes",
    "codec": "bodies of 40 MB, compared with memcpy",
    "averaging": "ten updates of 40 MB, compared with memcpy",
    "merging": "every aggregation rule, ten updates of 40 MB, compared with the plain mean",
    "memory": "what a node holds, idle and after training",
    "latency": "how soon a node answers while it trains",
    "forming": "meshes of 10, 30 and 100 nodes",
    "growth": "a round by nodes and by size of the model",
    "profile": "where a round's time goes",
    "curves": "accuracy by round for each wire format",
    "uneven": "part of the mesh, and one slow node: accuracy, bytes, time",
    "cohort": "many small networks trained as one, compared with one by one",
    "alignment": "private set intersection of 100,000 ids at each of two and three processes",
    "split": "a batch of a split network over two nodes, compared with the same batch in one process",
    "encrypted": "regression over encrypted columns, compared with clear text and with phe",
    "joining": "40 MB from three peers at once, compared with one, on slow links",
    "topology": "updates in segments, compared with a full mesh: bytes, fast links, slow links",
    "secure": "rounds with secure sums, compared with plain ones, and the recovery when nodes vanish",
    "page": "what the page costs in a real browser",
}
BASE_PORT = 4900
DATA = "FLNET_DATASETS_PATH"
ROOT = Path(__file__).parent.parent


def main() -> None:
    """Run what is asked for, and print the table; a measurement that fails is a row, not the end."""
    asked = _arguments()
    # As pip does where it installs; where Python writes no byte code, each node would compile flnet again.
    compileall.compile_dir(ROOT / "flnet", quiet=2)
    report = Report(lambda text: print(text, file=sys.stderr, flush=True))
    machine = described()
    report.say(in_words(machine))
    with temporary_folder("bench") as folder:
        place = Path(asked.keep or folder)
        options = Options(
            report, place, asked.base_port, asked.nodes, os.environ.get(DATA), asked.quick, asked.full
        )
        for name in asked.names or PIECES:
            started = time.monotonic()
            report.say(f"{name}: {PIECES[name]} (load {load()})")
            try:
                importlib.import_module(f"benchmarks.{name}").run(options)
            except Exception as exc:  # the others are still worth measuring
                traceback.print_exc()
                report.add(Row(name, "", [], note=f"failed: {type(exc).__name__}: {exc}"))
            report.say(f"{name}: {time.monotonic() - started:.0f} s")
    print(in_words({**machine, "load at the end": load()}), table(report.rows), *report.texts, sep="\n\n")
    if asked.json:
        results = {"machine": machine, "rows": [row.fields() for row in report.rows], "texts": report.texts}
        Path(asked.json).write_text(json.dumps(results, indent=1), "utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Ratios, measured side by side in one run; nothing is asserted."
    )
    names = "; ".join(f"{name}: {words}" for name, words in PIECES.items())
    parser.add_argument("names", nargs="*", metavar="name", help=f"what to measure; all if none is named. {names}")
    parser.add_argument("--quick", action="store_true", help="less of everything, for a first look")
    parser.add_argument("--full", action="store_true", help="also what takes many minutes: 100 nodes, more rounds")
    parser.add_argument("--nodes", type=int, help="how many nodes, where a measurement can have any number")
    parser.add_argument("--json", metavar="FILE", help="write all figures to a file too")
    parser.add_argument("--keep", metavar="FOLDER", help="keep logs and states of the nodes there")
    parser.add_argument("--base-port", type=int, default=BASE_PORT, help=f"first TCP port to try [{BASE_PORT}]")
    asked = parser.parse_args()
    unknown = [name for name in asked.names if name not in PIECES]
    if unknown:
        parser.error(f"no measurement is named {', '.join(unknown)}; there are {', '.join(PIECES)}")
    return asked


if __name__ == "__main__":
    main()
