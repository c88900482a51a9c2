"""`flnet pair`: who waits at a node of a pinned mesh, who is accepted, and what a person decides."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from flnet.cli.client import NodeClient, View, node_option
from flnet.cli.tables import print_json, print_table, table
from flnet.cli.text import printable
from flnet.errors import PeerRefused
from flnet.fingerprints import SPOKEN_WORDS, check_key, read_fingerprint
from flnet.spoken import WORDS

__all__ = ["command"]

CHOICES = {"a": "accept", "i": "accept as an introducer", "r": "reject", "l": "later"}
_LETTERS = 4  # of a word; by so many each can be told from all others


def _who(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """A whole fingerprint, a public key, or the six words, in its usual form."""
    if value is None:
        return None
    typed = value.replace("-", " ").lower().split()
    if len(typed) == SPOKEN_WORDS and all(found := [_word(part) for part in typed]):
        return "-".join(found)
    try:
        return check_key(value)
    except ValueError:
        pass
    try:
        return read_fingerprint(value)
    except ValueError as exc:
        words = f"expected a fingerprint, a public key or {SPOKEN_WORDS} words: {exc}"
        raise click.BadParameter(words, ctx, param) from exc


@click.command("pair")
@click.option(
    "--accept",
    metavar="FINGERPRINT",
    callback=_who,
    help="Trust the node with this fingerprint, or with these words.",
)
@click.option("--introducer", is_flag=True, help="With --accept: those whom people accepted there, too.")
@click.option(
    "--reject",
    metavar="FINGERPRINT",
    callback=_who,
    help="Let it wait no longer; it stays out until it is accepted.",
)
@click.option(
    "--forget", metavar="FINGERPRINT", callback=_who, help="Trust it no longer; it stays out until it is accepted."
)
@click.option("--all", "everybody", is_flag=True, help="Show also who is accepted and who stays out.")
@node_option
def command(
    accept: str | None,
    introducer: bool,
    reject: str | None,
    forget: str | None,
    everybody: bool,
    address: str,
    as_json: bool,
) -> None:
    """List who waits to be accepted at a node of a pinned mesh, and accept, reject or forget.

    A node is named by its whole fingerprint, also before it calls, or by its six words if it is listed. On a
    terminal, without an option, each that waits is asked about. Compare the words with the person there first.

    \b
    Exit codes: 0 done; 1 refused, or not known; 2 wrong usage; 3 the node cannot be reached.
    """
    if sum(order is not None for order in (accept, reject, forget)) > 1:
        raise click.UsageError("give one of --accept, --reject and --forget")
    if introducer and accept is None:
        raise click.UsageError("--introducer goes with --accept")
    with NodeClient(address) as node:
        known = node.trust()
        if accept is not None:
            view = node.accept(_mark(accept, known, "pending", "refused", "accepted"), introducer)
            _tell(as_json, view, f"{_name(view)} is accepted" + (", with those whom it introduces" * introducer))
        elif reject is not None:
            mark = _mark(reject, known, "pending")
            _tell(
                as_json, node.reject(mark), f"{_label(mark, known)} is rejected; it stays out until it is accepted"
            )
        elif forget is not None:
            mark = _mark(forget, known, "accepted")
            words = f"{_label(mark, known)} is forgotten; it stays out until it is accepted"
            _tell(as_json, node.forget_key(mark), words)
        elif as_json:
            print_json(known)
        else:
            _show(known, everybody, address)
            if is_terminal():
                _ask(node, known)


def is_terminal() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _word(part: str) -> str:
    """The word that is meant, written whole or by its first letters; empty if there is none."""
    return next((word for word in WORDS if word == part or (len(part) >= _LETTERS and word.startswith(part))), "")


def _mark(who: str, known: View, *groups: str) -> str:
    """The fingerprint or key as it was given, or of the only listed one with these words.

    Raises:
        PeerRefused: none is listed with these words, or several.
    """
    if "-" not in who or not who.islower():
        return who
    found = {one["fingerprint"] for group in groups for one in known[group] if one["words"] == who}
    if len(found) != 1:
        how = "none" if not found else "more than one"
        raise PeerRefused(404, "unknown_key", f"{how} is listed with the words {who}; name its whole fingerprint")
    return str(found.pop())


def _label(mark: str, known: View) -> str:
    """The name of a listed node, and the beginning of its fingerprint; of others, only what was given."""
    listed = [one for group in ("pending", "accepted", "refused") for one in known[group]]
    one = next((one for one in listed if mark in (one["fingerprint"], one["key"])), None)
    if one is None or not one["name"]:
        return (one["fingerprint"] if one else mark)[:11]
    return f"{_name(one)} ({one['fingerprint'][:11]})"


def _name(view: View) -> str:
    return printable(view["name"] or view["fingerprint"][:11])


def _tell(as_json: bool, view: View, words: str) -> None:
    if as_json:
        print_json(view)
    else:
        click.echo(words)


def _show(known: View, everybody: bool, address: str) -> None:
    own = known["own"]
    if own is None:
        click.echo(f"the mesh of the node at {address} is not pinned: nobody waits there")
        return
    click.echo(f"this node     {printable(own['words'])}\nfingerprint   {printable(own['fingerprint'])}")
    if not known["pending"]:
        click.echo("nobody waits to be accepted")
    for one in known["pending"]:
        click.echo(f"\nwaiting       {_name(one)} at {printable(one['address'])}")
        click.echo(f"  words       {printable(one['words'])}\n  fingerprint {printable(one['fingerprint'])}")
    for group, title in (("accepted", "accepted"), ("refused", "kept out")):
        if known[group] and everybody:
            _print(title, known[group])


def _print(title: str, views: Sequence[View]) -> None:
    shown = table("node", "address", "words", "key", "", title=f"\n{title}")
    for one in views:
        notes = ["introducer"] if one.get("is_introducer") else []
        if one["introduced_by"]:
            notes.append(f"introduced by {one['introduced_by'][:11]}")
        cells = (
            one["name"] or "-",
            one["address"] or "-",
            one["words"],
            one["fingerprint"][:11],
            ", ".join(notes),
        )
        shown.add_row(*map(printable, cells))
    print_table(shown)


def _ask(node: NodeClient, known: View) -> None:
    """Ask the person about each that waits."""
    for one in known["pending"]:
        click.echo(f"\n{_name(one)} at {printable(one['address'])}\n  its words    {printable(one['words'])}")
        click.echo(f"  your words   {printable(known['own']['words'])}")
        offered = ", ".join(f"{letter} {what}" for letter, what in CHOICES.items())
        answer = click.prompt(f"{offered}", type=click.Choice(list(CHOICES)), default="l", show_choices=False)
        if answer in ("a", "i"):
            node.accept(one["fingerprint"], answer == "i")
        elif answer == "r":
            node.reject(one["fingerprint"])
        click.echo(f"{CHOICES[answer]}: {_name(one)}")
