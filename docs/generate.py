"""Writes the generated parts of README.md and docs/ between their markers; `--check` only looks.

A generated part stands between <!-- begin:NAME --> and <!-- end:NAME -->. Its text comes from the code, so
tests/test_docs.py can tell when a document has fallen behind. Run it from anywhere: python docs/generate.py
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from flnet.cli.commands import cli
from flnet.errors import FlnetError, PeerError
from flnet.experiments.plan import find_plan
from flnet.experiments.report import read_table
from flnet.experiments.statistics import CHANCE, TableEntry
from flnet.membership.probing import Pauses, suspicion_ticks
from flnet.membership.roster import State, Status
from flnet.rounds.steps import ASYNCHRONOUS, VERTICAL, draw
from flnet.settings import PREFIX, Settings
from flnet.web.api.openapi import ENDPOINTS
from flnet.web.app import ROUTES
from flnet.web.auth.permissions import Who

WHO = {
    Who.PUBLIC: "anyone",
    Who.READERS: "anyone in an open mesh; its nodes and the operator in a mesh with keys",
    Who.NODES: "other nodes",
    Who.OPERATOR: "the operator of this node",
}
ROOT = Path(__file__).resolve().parent.parent
INCARNATIONS = (1, 2)  # of which the table of claims gives an example
PART = re.compile(r"(<!-- begin:(?P<name>[\w-]+) -->\n).*?(<!-- end:(?P=name) -->)", re.DOTALL)


def settings_table() -> str:
    """Every setting as its variable, with default and meaning."""
    rows = [
        f"| `{PREFIX}{name.upper()}` | {_default(field.default)} | {_plain(field.description)} |"
        for name, field in Settings.model_fields.items()
    ]
    return "\n".join(["| variable | default | meaning |", "| --- | --- | --- |", *rows])


def _plain(text: str | None) -> str:
    """The text as a table cell: nothing in it is a tag or ends the cell."""
    return (text or "").replace("<", "&lt;").replace("|", "\\|")


def _default(value: object) -> str:
    if value is None or value == ():
        return "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def commands_table() -> str:
    """Every command and what it does, as `flnet --help` says it."""
    context = click.Context(cli)
    commands = ((name, cli.get_command(context, name)) for name in cli.list_commands(context))
    rows = [f"| `flnet {name}` | {_plain(_paragraph(command))} |" for name, command in commands if command]
    return "\n".join(["| command | what it does |", "| --- | --- |", *rows])


def _paragraph(command: click.Command) -> str:
    return " ".join((command.help or "").split("\n\n")[0].split())


def endpoints_table() -> str:
    """Every endpoint with its verb, who may call it, and what it does."""
    rows = [f"| `{each.name}` | {WHO[each.who]} | {_plain(each.what)} |" for each in ENDPOINTS]
    return "\n".join(["| endpoint | who may call it | what it does |", "| --- | --- | --- |", *rows])


def errors_table() -> str:
    """Every error that a caller can meet: HTTP status, code, and when."""
    kinds = sorted(_leaves(PeerError), key=lambda kind: (kind.status, kind.code))
    rows = [f"| {kind.status} | `{kind.code}` | {_first_line(kind)} |" for kind in kinds]
    return "\n".join(["| status | code | when |", "| --- | --- | --- |", *rows])


def _leaves(kind: type[FlnetError]) -> Iterator[type[FlnetError]]:
    children = kind.__subclasses__()
    for child in children:
        yield from _leaves(child)
    if not children and kind.__module__ == "flnet.errors":
        yield kind


def _first_line(kind: type) -> str:
    return (kind.__doc__ or "").strip().splitlines()[0]


def state_diagram() -> str:
    """The picture of a job's legal steps."""
    return f"```mermaid\n{draw()}\n```"


def asynchronous_diagram() -> str:
    """The same of a job without common rounds."""
    return f"```mermaid\n{draw(ASYNCHRONOUS)}\n```"


def vertical_diagram() -> str:
    """The states of a vertical job."""
    return f"```mermaid\n{draw(VERTICAL)}\n```"


def claims_table() -> str:
    """Which claim about a member counts against what is held of it."""
    held = [f"`{state.value}`, {i}" for i in INCARNATIONS for state in State]
    head = ["| somebody says | " + " | ".join(held) + " |", "| --- |" + " --- |" * len(held)]
    return "\n".join([*head, *(_claim_row(Status(state, i)) for i in INCARNATIONS for state in State)])


def _claim_row(claim: Status) -> str:
    others = (Status(state, i) for i in INCARNATIONS for state in State)
    cells = ("counts" if claim.beats(other) else "same" if claim == other else "-" for other in others)
    return f"| `{claim.state.value}`, {claim.incarnation} | {' | '.join(cells)} |"


def suspicion_table() -> str:
    """How many seconds a suspect has, by nodes and accusers."""
    pauses = Pauses()
    rows = [
        f"| {size} | "
        + " | ".join(f"{suspicion_ticks(pauses, size, n) * pauses.tick:g}" if n < size else "" for n in (1, 2, 3))
        + " |"
        for size in (2, 3, 4, 5, 10, 20, 50, 100)
    ]
    return "\n".join(["| nodes | 1 accuser | 2 | 3 or more |", "| --- | --- | --- | --- |", *rows])


def access_table() -> str:
    """Who may ask for what, the REST API and the pages."""
    rows = [f"| {WHO[who]} | {_code(sorted(each.name for each in ROUTES if each.who is who))} |" for who in Who]
    return "\n".join(["| who | may ask for |", "| --- | --- |", *rows])


def _code(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def mlfedavg_table() -> str:
    """MLFedAvg's means as they are kept, each with its difference from the published one."""
    plan = find_plan("mlfedavg")
    table = read_table(plan, ROOT / "docs" / "results" / plan.id / "table.csv")
    compared = {(entry.row, entry.measure, entry.column): entry for entry in table if entry.difference is not None}
    near = {key for key, entry in compared.items() if entry.is_near(plan.tolerance)}
    within = {key for key, entry in compared.items() if entry.is_within(plan.tolerance)}
    columns = [column.name for column in plan.columns]
    lines = [
        "Each cell has the mean over seeds, its difference from the published one, and the number of seeds; bold if "
        f"the difference is more than {CHANCE:g} standard errors. **{len(near)} of {len(compared)} cells are within "
        f"{CHANCE:g} standard errors**, {len(within)} within {plan.tolerance:g} (30 % of a value below 0.1), "
        f"{len(near & within)} within both, {len(compared) - len(near | within)} within neither.",
        "",
        f"| data set | measure | {' | '.join(columns)} |",
        "| --- " * (2 + len(columns)) + "|",
    ]
    last = ""
    for row, measure in dict.fromkeys((row.name, test) for row in plan.rows for test in plan.statistics):
        cells = [(key, compared[key]) for column in columns if (key := (row, measure, column)) in compared]
        if cells:
            shown = " | ".join(_mean(entry, bold=key not in near) for key, entry in cells)
            lines.append(f"| {row if row != last else ''} | {measure} | {shown} |")
            last = row
    return "\n".join(lines)


def _mean(entry: TableEntry, *, bold: bool) -> str:
    stars = "**" if bold else ""
    difference = f"{entry.difference:+.3f}".replace("-", "\N{MINUS SIGN}")
    return f"{stars}{entry.mean:.3f} {difference}{stars} ({entry.count})"


PARTS: dict[str, Callable[[], str]] = {
    "mlfedavg": mlfedavg_table,
    "settings": settings_table,
    "commands": commands_table,
    "endpoints": endpoints_table,
    "errors": errors_table,
    "access": access_table,
    "job-steps": state_diagram,
    "asynchronous-steps": asynchronous_diagram,
    "vertical-steps": vertical_diagram,
    "claims": claims_table,
    "suspicion": suspicion_table,
}


def documents() -> list[Path]:
    """README.md and everything in docs/."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def renewed(text: str) -> str:
    """The document with its generated parts as the code has them now."""
    return PART.sub(lambda part: f"{part[1]}{PARTS[part['name']]()}\n{part[3]}", text)


def main(arguments: list[str]) -> int:
    """Renew the documents, or with --check name those that would change; the exit code."""
    behind = [path for path in documents() if renewed(path.read_text("utf-8")) != path.read_text("utf-8")]
    for path in behind:
        print(path.relative_to(ROOT), "is behind the code" if "--check" in arguments else "renewed")
        if "--check" not in arguments:
            path.write_text(renewed(path.read_text("utf-8")), "utf-8")
    return int("--check" in arguments and bool(behind))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
