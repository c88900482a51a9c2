"""An aggregation rule that a person proposes for a job of the whole mesh, in force once people of all its nodes took it.

No node decides for another one, and there is no moment at which all nodes change together. Instead each node states how
far it is, and reads what the others state:

1. *taken*: a person of this node takes the proposal, or made it. Only its proposer can withdraw it then.
2. *ready*: every member has taken it, as it states itself, and the proposer is ready. This node still starts rounds by
   the previous rule, but it follows a round that another node starts by the new one. A proposer that is ready cannot
   withdraw the proposal any more, so nobody who is ready has to go back.
3. *in force*: every member is ready. This node starts its rounds by the new rule, and follows those of members by the
   previous rule until each of them states that the rule is in force there, too.

So a round that starts by the new rule finds all members ready to follow it. The rule of a node changes only when a round
opens there: to the one that the round's start states. Messages of a round state the rule, and those that state another one
are refused, as between nodes whose settings differ; so no two nodes average one round by two rules.

The members are all nodes with the job of which this node has heard since the proposal was taken here. One that is away is
waited for, until a person forgets it: it would come back with the previous rule.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from flnet.aggregation.naming import rule_text
from flnet.algorithms.registry import parse_rule
from flnet.errors import InvalidMessage, JobBusy, NoProposal
from flnet.params.params import PeerId
from flnet.protocol.effects import Publish
from flnet.protocol.events import RulesHeard
from flnet.protocol.messages import MAX_PEERS, RuleStatement
from flnet.rounds.settings import JobSettings, Tell
from flnet.text import text

MOST_DECLINED = 8  # proposals whose refusal is remembered; the oldest ones go first


@dataclass(frozen=True)
class Proposal:
    """A rule that a node proposes.

    Attributes:
        rule: by its whole name.
        nonce: so that the same rule, proposed again, is another proposal.
    """

    by: PeerId
    rule: str
    nonce: str

    def mark(self, trainer: str) -> str:
        """What nodes call it: a digest of all that it says, so that none says one thing here and another one there."""
        said = json.dumps([trainer, self.by, self.rule, self.nonce])
        return hashlib.sha256(said.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class InForce:
    """The proposal that came into force last.

    Attributes:
        before: the previous rule.
        unsure: members that may not know yet that it is in force.
    """

    mark: str
    rule: str
    before: str
    unsure: frozenset[PeerId]


class Kept(NamedTuple):
    """The state of a `RuleChange` that an earlier run saved, with the rule of the settings at that time."""

    taken: Proposal | None
    is_ready: bool
    before: str
    last: InForce | None
    members: frozenset[PeerId]
    declined: tuple[str, ...]
    settled: str


class RuleChange:
    """The proposal that this node has taken, and what the other nodes state of theirs.

    Attributes:
        taken: the proposal that a person of this node took, or made; None if there is none, or it is in force.
        is_ready: whether all members have taken it.
        before: the rule of this node when it became ready; it may have followed a round by the new one since.
        last: the one that came into force last.
        members: the other nodes that have to take it.
        declined: marks of proposals that a person here does not take.
    """

    def __init__(self, settings: JobSettings, tell: Tell) -> None:
        self._settings, self._tell = settings, tell
        self.taken: Proposal | None = None
        self.is_ready, self.before = False, ""
        self.last: InForce | None = None
        self.members: frozenset[PeerId] = frozenset()
        self.declined: tuple[str, ...] = ()
        self._heard: dict[PeerId, RuleStatement] = {}
        self._sharing: frozenset[PeerId] = frozenset()  # who is there now, and has the job for all that is known
        self._without: frozenset[PeerId] = frozenset()  # who does not have it

    # --- what rounds ask

    @property
    def rule(self) -> str:
        """The rule by which this node starts rounds from now on."""
        return self.last.rule if self.last else self._settings.rules.merging

    @property
    def followed(self) -> frozenset[str]:
        """The rules by which this node follows rounds that others start, besides that of its newest round."""
        rules = {self.rule}
        if self.taken is not None and self.is_ready:
            rules |= {self.taken.rule, self.before}
        if self.last is not None and self.last.unsure:
            rules.add(self.last.before)
        return frozenset(rules - {self._settings.rules.merging})

    @property
    def known(self) -> frozenset[str]:
        """The same, and those of rounds that are over, or whose start came before it was in force everywhere."""
        before = {self.last.before} if self.last else frozenset()
        return self.followed | (before - {self._settings.rules.merging})

    @property
    def changes_rules(self) -> bool:
        """Whether the rule of the newest round may be a proposed one."""
        return self.last is not None or self.is_ready

    @property
    def is_waiting(self) -> bool:
        """Whether something depends on what the other nodes state."""
        return self.taken is not None or bool(self.last and self.last.unsure)

    def waits_for(self, peer: PeerId) -> bool:
        """Whether something depends on what this node states."""
        of_last = self.last.unsure if self.last else ()
        return peer in of_last or (self.taken is not None and peer in self.members)

    @property
    def statement(self) -> RuleStatement | None:
        """What this node states to the others; None if there is nothing to say."""
        if self.taken is None and self.last is None and not self.declined:
            return None
        taken = self.taken
        return RuleStatement(
            by=taken.by if taken else "",
            rule=taken.rule if taken else "",
            nonce=taken.nonce if taken else "",
            ready=self.is_ready,
            in_force=self.last.mark if self.last else "",
            declined=self.declined,
        )

    # --- what people say

    def propose(self, rule: str, nonce: str) -> list[Publish]:
        """A person here proposes a rule, and so takes it.

        Raises:
            JobBusy: another proposal is open.
            InvalidMessage: it is the rule already.
        """
        if self.taken is not None:
            raise JobBusy(self._taken_words)
        for other in self.open_proposals.values():
            if other.mark(self._settings.trainer) not in self.declined:
                raise JobBusy(
                    text("{peer} proposes {rule}: take it or decline it first", other.by, rule_text(other.rule))
                )
        if rule == self.rule:
            raise InvalidMessage(text("{rule} is the aggregation rule already", rule_text(rule)))
        self._take(Proposal(self._settings.my_id, rule, nonce))
        words = text("a person here proposes the aggregation rule {rule} to the mesh", rule_text(rule))
        return [self._tell("rule_proposed", words, rule=rule)]

    def find(self, mark: str) -> Proposal:
        """The open proposal of another node that is called so.

        Raises:
            NoProposal: there is none.
        """
        known = [*self.open_proposals.values(), *([self.taken] if self.taken else [])]
        for proposal in known:
            if proposal.mark(self._settings.trainer) == mark:
                return proposal
        raise NoProposal(text("no node makes this proposal any more; look again"))

    def take(self, proposal: Proposal) -> list[Publish]:
        """A person here takes it.

        Raises:
            JobBusy: another one was taken here.
        """
        if proposal == self.taken:
            return []
        if self.taken is not None:
            raise JobBusy(self._taken_words)
        self._take(proposal)
        words = text("a person here took the rule {rule} of {peer}", rule_text(proposal.rule), proposal.by)
        return [self._tell("rule_taken", words, rule=proposal.rule, peer=proposal.by)]

    def decline(self, proposal: Proposal) -> list[Publish]:
        """A person here does not take it.

        Raises:
            JobBusy: it was taken here.
        """
        if proposal == self.taken:
            raise JobBusy(self._taken_words)
        mark = proposal.mark(self._settings.trainer)
        self.declined = (*(one for one in self.declined if one != mark), mark)[-MOST_DECLINED:]
        words = text("a person here declined the rule {rule} of {peer}", rule_text(proposal.rule), proposal.by)
        return [self._tell("rule_declined", words, rule=proposal.rule, peer=proposal.by)]

    def withdraw(self) -> list[Publish]:
        """A person here withdraws what this node proposed.

        Raises:
            NoProposal: it proposes nothing.
            JobBusy: all nodes have taken it.
        """
        if self.taken is None or self.taken.by != self._settings.my_id:
            raise NoProposal(text("this node proposes no aggregation rule"))
        if self.is_ready:
            words = text("all nodes have taken {rule}: propose the other rule", rule_text(self.taken.rule))
            raise JobBusy(words)
        rule, self.taken = self.taken.rule, None
        words = text("the proposal of the aggregation rule {rule} was withdrawn", rule_text(rule))
        return [self._tell("rule_withdrawn", words, rule=rule)]

    def must_be_free(self) -> None:
        """Refuse a change of the rule at this node alone while a proposal was taken.

        Raises:
            JobBusy: one was.
        """
        if self.taken is not None:
            raise JobBusy(self._taken_words)

    def set_alone(self) -> None:
        """The rule was changed at this node alone: that counts from now on."""
        self.last = replace(self.last, rule=self._settings.rules.merging) if self.last else None

    # --- what the other nodes state

    def heard(self, event: RulesHeard) -> tuple[list[Publish], bool]:
        """Take what other nodes state; the news, and whether there is something to save."""
        before = self._figures
        known = self.open_proposals
        self._without = (self._without | event.without) - event.stated.keys()
        gone = self._without | event.forgotten
        self._heard = {peer: said for peer, said in {**self._heard, **event.stated}.items() if peer not in gone}
        self._sharing = frozenset(sorted(event.present - gone)[:MAX_PEERS])
        # Who comes after all have taken it cannot take it any more, and is not waited for.
        joined = self._sharing if self.taken and not self.is_ready else frozenset()
        self.members = (self.members - gone) | joined
        if self.last is not None:
            informed = {peer for peer in self.last.unsure if self._is_in_force(peer, self.last.mark)}
            self.last = replace(self.last, unsure=self.last.unsure - informed - gone)
        told = [*self._news(known), *self._advance()]
        return told, self._figures != before

    def _news(self, known: Mapping[PeerId, Proposal]) -> Iterable[Publish]:
        """What is proposed now that was not before."""
        for peer, proposal in self.open_proposals.items():
            if known.get(peer) != proposal and proposal.mark(self._settings.trainer) not in self.declined:
                words = text("{peer} proposes the aggregation rule {rule}", peer, rule_text(proposal.rule))
                yield self._tell("rule_proposed", words, rule=proposal.rule, peer=peer)

    def _advance(self) -> list[Publish]:
        """Take the steps that follow from what the members state."""
        if self.taken is None:
            return []
        taken, mark = self.taken, self.taken.mark(self._settings.trainer)
        if self._is_withdrawn(taken, mark):
            self.taken, self.is_ready = None, False
            words = text("{peer} no longer proposes the aggregation rule {rule}", taken.by, rule_text(taken.rule))
            return [self._tell("rule_withdrawn", words, rule=taken.rule, peer=taken.by)]
        told = []
        is_first = taken.by not in self.members  # the proposer, or those that it left to themselves
        may_be_ready = is_first or self._is_ready(taken.by, mark)
        if not self.is_ready and may_be_ready and all(self._has_taken(peer, mark) for peer in self.members):
            self.is_ready, self.before = True, self.rule
            words = text("all nodes have taken the aggregation rule {rule}", rule_text(taken.rule))
            told.append(self._tell("rule_taken_by_all", words, rule=taken.rule))
        if self.is_ready and all(self._is_ready(peer, mark) for peer in self.members):
            unsure = frozenset(peer for peer in self.members if not self._is_in_force(peer, mark))
            before = self.before
            self.last, self.taken, self.is_ready = InForce(mark, taken.rule, before, unsure), None, False
            words = text(
                "the aggregation rule is {rule} from the next round on, before {before}",
                rule_text(taken.rule),
                rule_text(before),
            )
            told.append(self._tell("merging_rule_set", words, rule=taken.rule, before=before))
        return told

    def _is_withdrawn(self, taken: Proposal, mark: str) -> bool:
        """Whether the proposer withdrew it; or it is gone for good, and so will be what nobody can withdraw any more."""
        if taken.by == self._settings.my_id:
            return False
        if taken.by in self.members:
            said = self._heard.get(taken.by)
            return not self.is_ready and said is not None and not self._has_taken(taken.by, mark)
        stated = [self._has_taken(peer, mark) for peer in self.members if peer in self._heard]
        return not (self.is_ready and all(stated))

    def _has_taken(self, peer: PeerId, mark: str) -> bool:
        said = self._heard.get(peer)
        taken = None if said is None or not said.by else Proposal(PeerId(said.by), said.rule, said.nonce)
        is_same = taken is not None and taken.mark(self._settings.trainer) == mark
        return is_same or self._is_in_force(peer, mark)

    def _is_ready(self, peer: PeerId, mark: str) -> bool:
        return self._is_in_force(peer, mark) or (self._has_taken(peer, mark) and self._heard[peer].ready)

    def _is_in_force(self, peer: PeerId, mark: str) -> bool:
        said = self._heard.get(peer)
        return said is not None and said.in_force == mark

    # --- what it shows and keeps

    @property
    def open_proposals(self) -> Mapping[PeerId, Proposal]:
        """What other nodes propose, by node; each speaks for itself alone, and of rules that are known here."""
        last = self.last.mark if self.last else ""
        found = {}
        for peer, said in sorted(self._heard.items()):
            proposal = Proposal(peer, said.rule, said.nonce)
            if said.by == peer and is_rule(said.rule) and proposal.mark(self._settings.trainer) != last:
                found[peer] = proposal
        return found

    def view(self) -> Mapping[str, Any]:
        """Its figures in the view of the job; empty if nothing was ever proposed."""
        shown = {**({self.taken.by: self.taken} if self.taken else {}), **self.open_proposals}
        figures: dict[str, Any] = {}
        if (statement := self.statement) is not None:
            figures["rule_statement"] = statement
        if shown:
            figures["rule_proposals"] = [self._shown(proposal) for _, proposal in sorted(shown.items())]
        if self.rule != self._settings.rules.merging:
            figures["next_rule"] = self.rule
        return figures

    def _shown(self, proposal: Proposal) -> Mapping[str, Any]:
        mark, me = proposal.mark(self._settings.trainer), self._settings.my_id
        is_taken = proposal == self.taken
        others = [peer for peer in self.members | self._sharing if not self._has_taken(peer, mark)]
        declining = [peer for peer, said in self._heard.items() if mark in said.declined]
        return {
            "by": proposal.by,
            "rule": proposal.rule,
            "mark": mark,
            "state": "ready" if is_taken and self.is_ready else "taken" if is_taken else "open",
            "not_taken": sorted([*others, *([] if is_taken else [me])]),
            "declined_by": sorted([*declining, *([me] if mark in self.declined else [])]),
        }

    def kept(self) -> Mapping[str, Any]:
        """The state that is saved for a restart, as plain JSON data; empty if nothing was ever proposed."""
        taken, last = self.taken, self.last
        if taken is None and last is None and not self.declined:
            return {}
        kept = {
            "taken": [taken.by, taken.rule, taken.nonce] if taken else None,
            "ready": self.is_ready,
            "before": self.before,
            "last": [last.mark, last.rule, last.before, sorted(last.unsure)] if last else None,
            "members": sorted(self.members),
            "declined": list(self.declined),
            "settled": self._settings.rules.settled,
        }
        return {"rule_change": kept}

    def restore(self, kept: Kept | None) -> None:
        """Restore the state that an earlier run saved, after the settings."""
        if kept is None:
            return
        self.taken, self.is_ready, self.before, self.last = kept.taken, kept.is_ready, kept.before, kept.last
        self.members, self.declined = kept.members, kept.declined
        allows = self._settings.rules.topology.allows
        is_other = kept.settled != self._settings.rules.settled  # a person changed the setting since, which counts
        if is_other or (self.last is not None and not allows(parse_rule(self.last.rule))):
            self.set_alone()
        if self.taken is not None and not allows(parse_rule(self.taken.rule)):  # updates travel otherwise since
            self.taken, self.is_ready = None, False

    @property
    def _figures(self) -> tuple[Any, ...]:
        return self.taken, self.is_ready, self.last, self.members, self.declined

    @property
    def _taken_words(self) -> str:
        taken = self.taken
        assert taken is not None
        if taken.by == self._settings.my_id:
            return text("this node proposes {rule} already; withdraw that first", rule_text(taken.rule))
        return text(
            "the rule {rule} of {peer} was taken here, and only its proposer can withdraw it",
            rule_text(taken.rule),
            taken.by,
        )

    def _take(self, proposal: Proposal) -> None:
        mark = proposal.mark(self._settings.trainer)
        self.declined = tuple(one for one in self.declined if one != mark)
        self.taken, self.is_ready, self.members = proposal, False, self._sharing


def read_change(kept: Mapping[str, Any] | None) -> Kept | None:
    """The state that an earlier run saved; None if nothing had been proposed.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: it is none.
    """
    if not kept:
        return None
    taken, last = kept["taken"], kept["last"]
    return Kept(
        Proposal(PeerId(taken[0]), checked(taken[1]), str(taken[2])) if taken else None,
        bool(kept["ready"]),
        str(kept["before"]),
        InForce(str(last[0]), checked(last[1]), checked(last[2]), frozenset(last[3])) if last else None,
        frozenset(kept["members"]),
        tuple(kept["declined"]),
        str(kept["settled"]),
    )


def checked(rule: str) -> str:
    """The rule.

    Raises:
        ValueError: there is no such rule here, or it is not written by its whole name.
    """
    if parse_rule(rule).name != rule:
        raise ValueError(rule)
    return rule


def is_rule(rule: str) -> bool:
    """Whether there is such a rule here, and this is its whole name."""
    try:
        return bool(checked(rule))
    except ValueError:
        return False
