"""`python -m flnet.simulation`: schedules of faults by the thousand, or one of them and all that happens in it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from flnet.simulation.hunting import Options, hunt, replay
from flnet.simulation.schedule import WEATHER_FIELDS, Reduction


def main(words: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns:
        The exit code: 1 if anything was broken.
    """
    asked = _parser().parse_args(words)
    if asked.replay is not None:
        reduction = Reduction(asked.nodes, asked.actions, asked.mild, asked.asynchronous)
        return int(replay(asked.replay, reduction, _tell) is not None)
    return int(hunt(Options(asked.schedules, asked.seed, asked.jobs, asynchronous=asked.asynchronous), _tell) > 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m flnet.simulation", description=__doc__)
    parser.add_argument("--schedules", type=int, default=1000, help="how many to play")
    parser.add_argument("--seed", type=int, default=0, help="of the first of them; the others follow it")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--replay", type=int, metavar="SEED", help="play one schedule, and tell all of it")
    parser.add_argument("--nodes", type=int, help="of a replay: with so many nodes")
    parser.add_argument("--actions", type=_numbers, help="of a replay: with these actions only, as 0,3,4 or none")
    parser.add_argument("--asynchronous", action="store_true", help="in a mesh without common rounds")
    mild = "of a replay: with these faults of the weather left out"
    parser.add_argument("--mild", type=_names, default=(), help=mild)
    return parser


def _numbers(text: str) -> tuple[int, ...]:
    return () if text == "none" else tuple(int(word) for word in text.split(","))


def _names(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := [name for name in names if name not in WEATHER_FIELDS]:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: expected some of {', '.join(WEATHER_FIELDS)}")
    return names


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
