"""Commands for keys and tokens: `flnet keygen`, `flnet pair` and `flnet token`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from flnet.cli.client import NodeClient, View, node_option
from flnet.cli.options import folder_options, json_option, read_config
from flnet.cli.output import print_json, print_table, printable, table
from flnet.errors import PeerRefused, StartError
from flnet.fingerprints import SPOKEN_WORDS, WORDS, check_key, fingerprint, read_fingerprint, short, words
from flnet.security.keys import ensure, noted
from flnet.security.ownership import check_folder
from flnet.settings import PREFIX, Settings, load_settings
from flnet.store.state_folder import FolderLock
from flnet.web.auth.operator_token import read_token, sign_in_link, token_path, write_new


@click.command("keygen")
@folder_options
@click.option(
    "--new-identity", is_flag=True, help="Set the old key aside and create a new one; peers see another node."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(*, state_path: Path | None, node_port: int | None, new_identity: bool, as_json: bool) -> None:
    """Create a node's key pair if it has none, and show the public key and its fingerprint.

    The first start of a node does the same. The private key stays in the folder and is never shown. For a pinned
    mesh, the fingerprint of the page's certificate is shown as well, as browsers display it.

    \b
    Exit codes: 0 shown; 1 the key is damaged or cannot be written, or a node runs on the folder; 2 wrong usage.
    """
    folder = load_settings({"state_path": state_path, "node_port": node_port}, os.environ).folder
    key = _key(folder, new_identity)
    shown = {"folder": str(folder), "key": key, "fingerprint": fingerprint(key), "short": short(key)}
    shown["words"] = words(key)
    from flnet.security.tls import PAGE_CERTIFICATE, print_of_page  # noqa: PLC0415 - loads `cryptography`

    if (folder / PAGE_CERTIFICATE).exists():  # of a node of a pinned mesh
        shown["page"] = f"SHA-256 {print_of_page(folder)}"
    if as_json:
        click.echo(json.dumps(shown))
        return
    for name, value in shown.items():
        click.echo(f"{name:<13}{printable(value)}")


def _key(folder: Path, new: bool) -> str:
    """The public key of the folder, created if missing; if a node runs on the folder, it is only read.

    Raises:
        StartError: it is damaged, cannot be written, or a node is in the way.
    """
    try:
        check_folder(folder)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_folder(folder)
        lock = FolderLock(folder)
    except StartError:
        if new or (key := noted(folder)) is None:
            raise
        return key
    except OSError as exc:
        raise StartError(f"the folder {folder} cannot be written: {exc.strerror or exc}") from exc
    try:
        return ensure(folder, new=new)
    finally:
        lock.close()


CHOICES = {"a": "accept", "i": "accept as an introducer", "r": "reject", "l": "later"}
_LETTERS = 4  # of a word; by so many each can be told from all others


def _who(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Parse a whole fingerprint, a public key, or six words."""
    if value is None:
        return None
    typed = value.replace("-", " ").lower().split()
    if len(typed) == SPOKEN_WORDS and all(spoken := [_word(part) for part in typed]):
        return "-".join(spoken)
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
@click.option("--introducer", is_flag=True, help="With --accept: also trust the nodes that were accepted there.")
@click.option(
    "--reject",
    metavar="FINGERPRINT",
    callback=_who,
    help="Turn this waiting node away; it stays out until it is accepted.",
)
@click.option(
    "--forget",
    metavar="FINGERPRINT",
    callback=_who,
    help="Stop trusting this node; it stays out until it is accepted.",
)
@click.option("--all", "everybody", is_flag=True, help="Also show accepted and rejected nodes.")
@node_option
def pair_command(
    accept: str | None,
    introducer: bool,
    reject: str | None,
    forget: str | None,
    everybody: bool,
    address: str,
    as_json: bool,
) -> None:
    """List the nodes that wait to be accepted in a pinned mesh; accept, reject or forget one.

    A node is named by its whole fingerprint, even before it connects, or by its six words if it is listed. On a
    terminal, without an option, you are asked about each waiting node. Compare the words with its operator first.

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
    """Whether stdin and stdout are terminals, so that questions can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _word(part: str) -> str:
    """The word of the list with this spelling or these first letters; empty if there is none."""
    return next((word for word in WORDS if word == part or (len(part) >= _LETTERS and word.startswith(part))), "")


def _mark(who: str, known: View, *groups: str) -> str:
    """The given fingerprint or key, or the fingerprint of the only listed node with these words.

    Raises:
        PeerRefused: none is listed with these words, or several.
    """
    if "-" not in who or not who.islower():
        return who
    matching = {key["fingerprint"] for group in groups for key in known[group] if key["words"] == who}
    if len(matching) != 1:
        how = "none" if not matching else "more than one"
        raise PeerRefused(404, "unknown_key", f"{how} is listed with the words {who}; name its whole fingerprint")
    return str(matching.pop())


def _label(mark: str, known: View) -> str:
    """The name and the beginning of the fingerprint of a listed node; for others, only the fingerprint."""
    listed = [key for group in ("pending", "accepted", "refused") for key in known[group]]
    key = next((key for key in listed if mark in (key["fingerprint"], key["key"])), None)
    if key is None or not key["name"]:
        return (key["fingerprint"] if key else mark)[:11]
    return f"{_name(key)} ({key['fingerprint'][:11]})"


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
    for waiting in known["pending"]:
        click.echo(f"\nwaiting       {_name(waiting)} at {printable(waiting['address'])}")
        click.echo(
            f"  words       {printable(waiting['words'])}\n  fingerprint {printable(waiting['fingerprint'])}"
        )
    for group, title in (("accepted", "accepted"), ("refused", "kept out")):
        if known[group] and everybody:
            _print(title, known[group])


def _print(title: str, views: Sequence[View]) -> None:
    shown = table("node", "address", "words", "key", "", title=f"\n{title}")
    for view in views:
        notes = ["introducer"] if view.get("is_introducer") else []
        if view["introduced_by"]:
            notes.append(f"introduced by {view['introduced_by'][:11]}")
        cells = (
            view["name"] or "-",
            view["address"] or "-",
            view["words"],
            view["fingerprint"][:11],
            ", ".join(notes),
        )
        shown.add_row(*map(printable, cells))
    print_table(shown)


def _ask(node: NodeClient, known: View) -> None:
    """Ask the operator about each waiting node."""
    for waiting in known["pending"]:
        click.echo(
            f"\n{_name(waiting)} at {printable(waiting['address'])}\n  its words    {printable(waiting['words'])}"
        )
        click.echo(f"  your words   {printable(known['own']['words'])}")
        offered = ", ".join(f"{letter} {what}" for letter, what in CHOICES.items())
        answer = click.prompt(f"{offered}", type=click.Choice(list(CHOICES)), default="l", show_choices=False)
        if answer in ("a", "i"):
            node.accept(waiting["fingerprint"], answer == "i")
        elif answer == "r":
            node.reject(waiting["fingerprint"])
        click.echo(f"{CHOICES[answer]}: {_name(waiting)}")


@click.command("token")
@folder_options
@click.option("--new", is_flag=True, help="Replace the token; the old one and all sessions end at once.")
@json_option
def token_command(*, state_path: Path | None, node_port: int | None, new: bool, as_json: bool) -> None:
    """Show the operator's token of a node on this machine, and the link that signs a browser in.

    \b
    Exit codes: 0 shown; 1 there is none, or it cannot be written; 2 wrong usage or settings.
    """
    settings = load_settings({"state_path": state_path, "node_port": node_port}, os.environ, read_config(None))
    token = _token(settings, new)
    shown = {"token": token, "sign in": sign_in_link(settings, token)}
    if as_json:
        click.echo(json.dumps(shown))
        return
    for name, value in shown.items():
        click.echo(f"{name:<9}{printable(value)}")


def _token(settings: Settings, new: bool) -> str:
    """The token of a node with these settings.

    Raises:
        StartError: there is none, it is set elsewhere and cannot be replaced here, or it cannot be written.
    """
    set_by = [name for name in ("operator_token", "operator_token_file") if getattr(settings, name) is not None]
    if new and set_by:
        raise StartError(f"the token is set by {PREFIX}{set_by[0].upper()}; change it there")
    path = settings.operator_token_file or token_path(settings)
    if new:
        check_folder(settings.folder)
        return write_new(path)
    token = settings.operator_token or read_token(path)
    if token is None:
        raise StartError(f"there is no token in {path}; the first start of a node makes one, and so does --new")
    return token
