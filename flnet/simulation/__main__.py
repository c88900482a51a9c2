"""`python -m flnet.simulation`: run thousands of schedules of faults, or replay one and print all its events."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from flnet.simulation.schedule import FAULT_NAMES, RULES_IN_SEGMENTS, Reduction
from flnet.simulation.search import Options, replay, search


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns:
        The exit code: 1 if an invariant was broken.
    """
    given = _parser().parse_args(arguments)
    if given.replay is not None:
        kinds = (given.asynchronous, given.hostile, given.keyed, given.secure, given.segments)
        how = (*kinds, given.topology, given.rule)
        reduction = Reduction(given.nodes, given.actions, given.mild, *how)
        return int(replay(given.replay, reduction, _print) is not None)
    options = Options(
        given.schedules,
        given.seed,
        given.jobs,
        given.most,
        asynchronous=given.asynchronous,
        hostile=given.hostile,
        keyed=given.keyed,
        secure=given.secure,
        segments=given.segments,
        topology=given.topology,
        rule=given.rule,
    )
    return int(search(options, _print) > 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m flnet.simulation", description=__doc__)
    parser.add_argument("--schedules", type=int, default=1000, help="number of schedules to run")
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the first schedule; the others count up from it"
    )
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--replay", type=int, metavar="SEED", help="run one schedule and print all its events")
    parser.add_argument("--nodes", type=int, help="for a replay: number of nodes")
    parser.add_argument("--actions", type=_numbers, help="for a replay: only these actions, as 0,3,4 or none")
    parser.add_argument(
        "--asynchronous", action="store_true", help="run asynchronous meshes, without common rounds"
    )
    parser.add_argument("--hostile", action="store_true", help="add a member that says whatever may do harm")
    parser.add_argument(
        "--keyed", action="store_true", help="sign claims of members, as in a keyed or pinned mesh"
    )
    parser.add_argument("--segments", action="store_true", help="average updates segment by segment")
    parser.add_argument(
        "--rule",
        default="",
        choices=("", *RULES_IN_SEGMENTS),
        help="with --segments: by which rule, not a drawn one",
    )
    parser.add_argument("--topology", default="", help="random:2 or ring: average with neighbours alone")
    parser.add_argument("--secure", action="store_true", help="mask updates, so that only their sum can be opened")
    parser.add_argument(
        "--most", type=int, default=5, help="number of broken schedules after which the search ends"
    )
    parser.add_argument("--mild", type=_names, default=(), help="for a replay: leave out these faults")
    return parser


def _numbers(text: str) -> tuple[int, ...]:
    return () if text == "none" else tuple(int(number) for number in text.split(","))


def _names(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := [name for name in names if name not in FAULT_NAMES]:
        raise argparse.ArgumentTypeError(
            f"unknown faults {', '.join(unknown)}; expected some of {', '.join(FAULT_NAMES)}"
        )
    return names


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
