"""Mutation testing: plants small faults in flnet, one at a time, and records which of them the tests notice.

`tests/tools/mutants.json` keeps faults that were drawn at random, in five groups of modules, and that the tests noticed.
A fault is kept as lines of code with the function that holds them, so that it can be planted again after code has moved.
When tests are merged or removed, each of these faults must still be noticed.

    python -m tests.tools.mutants list wire
    python -m tests.tools.mutants locate              # which mutants have no place in the current code
    python -m tests.tools.mutants apply wire-07       # plant one in this working tree (git diff shows it)
    python -m tests.tools.mutants check rounds aggregation --jobs 2 --tests tests/rounds tests/aggregation

Where the code of a mutant was rewritten, change its entry; where its behaviour was removed on purpose, remove the entry.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from tests.tools.mutant_judging import Judge, Verdict
from tests.tools.mutant_places import NotFound, Place, Tree
from tests.tools.mutant_runs import Copy

ROOT = Path(__file__).parent.parent.parent
KEPT = Path(__file__).with_name("mutants.json")
Mutant = dict[str, Any]  # one entry of the file


class Collection:
    """The mutants of a file."""

    def __init__(self, file: Path) -> None:
        self.mutants: list[Mutant] = json.loads(file.read_text("utf-8"))

    def chosen(self, names: Iterable[str]) -> list[Mutant]:
        """The mutants of these ids and groups; all if none is named."""
        wanted = set(names)
        unknown = wanted - {m["id"] for m in self.mutants} - {m["group"] for m in self.mutants}
        if unknown:
            raise SystemExit(f"no mutant or group is called {', '.join(sorted(unknown))}")
        return [m for m in self.mutants if not wanted or m["id"] in wanted or m["group"] in wanted]


def write(file: Path, data: object) -> None:
    """Save as JSON, replacing the file at once."""
    made = file.with_suffix(".new")
    made.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", "utf-8")
    made.replace(file)


def place_of(mutant: Mutant, tree: Tree) -> tuple[Place, str]:
    """Where a mutant goes in a working tree, and the text of that file with the fault in it.

    Raises:
        NotFound: it has no place there.
    """
    place = tree.find(mutant["path"], mutant["function"], mutant["before"], mutant["occurrence"], mutant["unique"])
    return place, place.planted(mutant["after"])


def list_all(arguments: argparse.Namespace) -> None:
    """Print mutants, and how many there are in each group."""
    mutants = Collection(arguments.file).chosen(arguments.names)
    for mutant in mutants:
        print(f"{mutant['id']} {mutant['path']} {mutant['function']} {mutant['by']}")
        print("  - " + "\n    ".join(mutant["before"].splitlines()))
        print("  + " + "\n    ".join(mutant["after"].splitlines()))
    for group, count in Counter(mutant["group"] for mutant in mutants).items():
        print(f"{group}: {count}")


def apply(arguments: argparse.Namespace) -> None:
    """Plant one mutant in a working tree."""
    (mutant,) = Collection(arguments.file).chosen([arguments.id])
    tree = Tree(arguments.tree)
    try:
        place, text = place_of(mutant, tree)
    except NotFound as exc:
        raise SystemExit(f"not found: {exc}") from exc
    (arguments.tree / place.module.path).write_text(text, "utf-8")
    print(f"{place.module.path} ({place.how})")


def locate(arguments: argparse.Namespace) -> None:
    """Print the mutants that have no place in the current code, with lines that look like theirs."""
    tree, missing = Tree(arguments.tree), 0
    for mutant in Collection(arguments.file).chosen(arguments.names):
        try:
            place, _ = place_of(mutant, tree)
            if arguments.verbose or place.how == "same lines":
                print(f"{mutant['id']} {place.how}: {place.module.path}")
        except NotFound as exc:
            missing += 1
            print(f"{mutant['id']} {mutant['path']} {mutant['function']}: {exc}")
            for line in (mutant["before"], *tree.alike(mutant["before"])):
                print(f"    {line}")
    print(f"{missing} without a place")


def check(arguments: argparse.Namespace) -> int:
    """Run tests against each mutant; print those that survive."""
    collection = Collection(arguments.file)
    done: dict[str, str] = {}
    if arguments.record and arguments.record.exists():
        done = json.loads(arguments.record.read_text("utf-8"))
    wanted = collection.chosen(arguments.names)
    lock = threading.Lock()

    def note(mutant: Mutant, verdict: Verdict) -> None:
        with lock:
            done[mutant["id"]] = str(verdict)
            if arguments.record:
                write(arguments.record, done)
        print(f"{mutant['id']}: {verdict}", flush=True)

    each([m for m in wanted if not done.get(m["id"], "").startswith("killed")], arguments, note)
    results = {m["id"]: done.get(m["id"], "error: no result") for m in wanted}
    bad = {name: words for name, words in results.items() if not words.startswith("killed")}
    print(f"\n{len(results) - len(bad)} of {len(results)} are killed")
    for name, words in bad.items():
        print(f"{name}: {words}")
    return len(bad) > 0


def each(
    mutants: Sequence[Mutant], arguments: argparse.Namespace, note: Callable[[Mutant, Verdict], None]
) -> None:
    """Judge mutants in so many copies of the working tree at once."""
    waiting: SimpleQueue[Mutant] = SimpleQueue()
    for mutant in mutants:
        waiting.put(mutant)
    tree = Tree(ROOT)
    with tempfile.TemporaryDirectory(prefix="flnet-mutants-") as made:
        scratch = arguments.scratch or Path(made)

        def work(number: int) -> None:
            judge = Judge(Copy(ROOT, scratch / f"w{number}"), arguments.tests, arguments.near, arguments.wide)
            while True:
                try:
                    mutant = waiting.get_nowait()
                except Empty:
                    return
                try:
                    place, text = place_of(mutant, tree)
                    verdict = judge.judge({**mutant, "path": place.module.path}, text)
                except NotFound as exc:
                    verdict = Verdict("not found", "", str(exc))
                except (OSError, RuntimeError, subprocess.SubprocessError) as exc:
                    verdict = Verdict("error", "", str(exc))
                note(mutant, verdict)

        workers = [threading.Thread(target=work, args=(number,)) for number in range(arguments.jobs)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--file", type=Path, default=KEPT, help="where the mutants are kept")
    commands = parser.add_subparsers(required=True)

    def command(work: Callable[[argparse.Namespace], int | None]) -> argparse.ArgumentParser:
        name = work.__name__.partition("_")[0]
        added = commands.add_parser(name, help=(work.__doc__ or "").partition("\n")[0])
        added.set_defaults(work=work)
        return added

    showing, planting, locating, checking = map(command, (list_all, apply, locate, check))
    planting.add_argument("id")
    locating.add_argument("--verbose", action="store_true")
    for added in (planting, locating):
        added.add_argument("--tree", type=Path, default=ROOT, help="a working tree; this one by default")
    checking.add_argument("--jobs", type=int, default=1, help="so many at once, each in a copy of its own")
    checking.add_argument("--tests", nargs="*", default=[], help="files and folders of tests")
    checking.add_argument("--near", type=float, default=240, help="seconds for the near tests")
    checking.add_argument("--wide", type=float, default=900, help="for the others; 0 leaves them out")
    checking.add_argument("--scratch", type=Path, help="folder for the copies")
    checking.add_argument("--record", type=Path, help="keeps results, so that a check can go on where it ended")
    for added in (showing, locating, checking):
        added.add_argument("names", nargs="*", help="ids and groups; all by default")
    arguments = parser.parse_args()
    return arguments.work(arguments) or 0


if __name__ == "__main__":
    sys.exit(main())
