"""`flnet rule`: propose an aggregation rule to the mesh, and take or decline what other nodes propose."""

from __future__ import annotations

from collections.abc import Sequence

import click

from flnet.aggregation.naming import rule_text
from flnet.cli.client import NodeClient, View, node_option
from flnet.cli.output import listed, print_json, printable
from flnet.errors import NoProposal

_STATES = {"open": "not taken here", "taken": "taken here", "ready": "taken by all nodes"}


@click.command("rule")
@click.argument("trainer")
@click.option("--propose", metavar="RULE", help="Propose this rule to the mesh, as --aggregation is written.")
@click.option("--take", metavar="NODE", help="Take the rule that this node proposes.")
@click.option("--decline", metavar="NODE", help="Decline the rule that this node proposes.")
@click.option("--withdraw", is_flag=True, help="Withdraw what this node proposes.")
@node_option
def command(
    trainer: str,
    propose: str | None,
    take: str | None,
    decline: str | None,
    withdraw: bool,
    address: str,
    as_json: bool,
) -> None:
    """Show the aggregation rule of a job and what is proposed, or propose another rule to the whole mesh.

    A proposed rule is in force from the next round on when people of all nodes have taken it. Until then rounds are
    averaged by the previous rule. Only its proposer can withdraw it, until all nodes have taken it.

    \b
    Exit codes: 0 shown or done; 1 the node refused; 2 wrong usage; 3 the node cannot be reached.
    """
    if sum((propose is not None, take is not None, decline is not None, withdraw)) > 1:
        raise click.UsageError("one of --propose, --take, --decline and --withdraw at a time")
    with NodeClient(address) as node:
        if propose is not None:
            job = node.propose(trainer, propose)
        elif withdraw:
            job = node.withdraw(trainer)
        else:
            known = node.proposals(trainer)
            peer = take if take is not None else decline
            job = (
                node.job(trainer)
                if peer is None
                else node.answer(trainer, _mark(known, peer), takes=take is not None)
            )
    proposals: list[View] = job.get("rule_proposals") or []
    if as_json:
        rules = {name: job.get(name) or "" for name in ("merging_rule", "next_rule")}
        return print_json({**rules, "rule_proposals": proposals})
    click.echo(f"{printable(trainer)}: {_words(job.get('merging_rule'))}")
    if job.get("next_rule"):
        click.echo(f"from the next round on: {_words(job['next_rule'])}")
    for proposal in proposals:
        click.echo(f"{printable(proposal['by'])} proposes {_words(proposal['rule'])}: {_state(proposal)}")
    return None


def _mark(proposals: Sequence[View], peer: str) -> str:
    """By what the proposal of a node is called.

    Raises:
        NoProposal: it proposes nothing.
    """
    for proposal in proposals:
        if proposal["by"] == peer:
            return str(proposal["mark"])
    known = listed(printable(proposal["by"]) for proposal in proposals) or "nobody"
    raise NoProposal(f"{printable(peer)} proposes no aggregation rule; {known} does")


def _words(rule: object) -> str:
    return printable(rule_text(str(rule or "")))


def _state(proposal: View) -> str:
    words = [_STATES.get(str(proposal["state"]), "")]
    if proposal["not_taken"]:
        words.append(f"waits for {listed(map(printable, proposal['not_taken']))}")
    if proposal["declined_by"]:
        words.append(f"declined by {listed(map(printable, proposal['declined_by']))}")
    return "; ".join(words)
