"""What a node without common rounds tells of its version, hears of those of others, and takes no part in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from flnet.effects import Answer, Effect, Send
from flnet.errors import NoData, NotComparable, NotReady, ParamsRefused, PeerError
from flnet.events import ClaimReceived, Event, Mark, Version, VersionReceived
from flnet.jobs.agreement import must_agree
from flnet.jobs.state import JobState
from flnet.jobs.steps import Phase
from flnet.messages import AskVersion, VersionReply
from flnet.params import Params, PeerId, RoundKey, Update
from flnet.refusals import OtherRounds

HERE = "this node takes part in no common rounds: it trains and merges by itself (FLNET_ROUNDS=asynchronous)"
THERE = "this node trains in rounds that are common to all nodes (FLNET_ROUNDS=common), and has no versions"


def own_version(s: JobState) -> Version:
    """The newest version of this node; of number 0 as long as it never trained what it trains now."""
    assert s.model is not None
    if s.own is None or s.sent is None:
        update = Update(s.my_id, RoundKey(0, s.my_id), Params(), examples=0)
        return Version(Mark(s.run or s.my_id, 0, s.model.shared.digest), update)
    mark = Mark(s.run or s.my_id, s.own.key.number, s.sent.digest)
    return Version(mark, replace(s.own, params=Params()))


def tell(s: JobState, to: Iterable[PeerId]) -> list[Effect]:
    """Tell peers this node's version; each answers with its own."""
    peers = tuple(sorted(to))
    if not peers or s.model is None or s.hyper is None:
        return []
    message = AskVersion(
        i_am=s.me,
        trainer_id=s.trainer,
        federated_learning_params=s.hyper,
        initiator=s.my_id,
        agreement=s.agreement(),
        **_stated(own_version(s)),
    )
    s.versions.sent(peers)
    return [Send(peers, message)]


def version_received(s: JobState, event: VersionReceived) -> list[Effect]:
    """A peer told its version: answer with ours.

    Raises:
        NotReady, NoData: there is none here.
        ParamsRefused: the peer trains something else, or in common rounds.
    """
    must_have_model(s)
    must_agree(s, event.agreement)
    reply = VersionReply(i_am=s.me, **_stated(own_version(s)))
    return [Answer(reply), *heard(s, event.version)]


def heard(s: JobState, version: Version) -> list[Effect]:
    """Note a peer's version; people read of new ones."""
    before = s.versions.heard.get(version.peer)
    if not s.versions.hear(version, s.peers):
        return []
    if s.wake is not None and s.averaging is None:  # newer than an answer that was long on its way
        s.wake.told[version.peer] = version
    again = before is not None and before.run != version.mark.run and version.mark.number <= before.number
    words = f"{version.peer} has version {version.mark.number} of {s.trainer} now"
    if again:
        words = f"{version.peer} began anew, and has version {version.mark.number} of {s.trainer} now"
    return [s.tell("version_heard", words, peer=version.peer, version=version.mark.number)]


def must_have_model(s: JobState) -> None:
    """Refuse what can only be answered when there is a model.

    Raises:
        NotReady, NoData: there is none.
    """
    if s.phase is Phase.LOADING:
        raise NotReady(f"{s.trainer} is still loading its data")
    if s.phase is Phase.NO_DATA or s.model is None:
        raise NoData(s.trainer, s.error or "no data")


def refuse(s: JobState, event: Event) -> PeerError:
    """Why a message of common rounds is refused here: its sender's settings differ, or it cannot know of ours."""
    try:
        must_agree(s, getattr(event, "agreement", None))
    except ParamsRefused as exc:
        return exc
    return NotComparable(HERE) if isinstance(event, ClaimReceived) else OtherRounds(HERE)


def refuse_versions(s: JobState, event: VersionReceived) -> PeerError:
    """Why a node in common rounds answers no version."""
    try:
        must_agree(s, event.agreement)
    except ParamsRefused as exc:
        return exc
    return OtherRounds(THERE)


def _stated(version: Version) -> dict[str, Any]:
    mark, update = version.mark, version.update
    said: dict[str, Any] = {
        "round": mark.number,
        "run": mark.run,
        "digest": mark.digest,
        "examples": update.examples or 0,
        "labels": update.labels,
        "accuracy": update.accuracy,
        "base": update.base,
    }
    if (one := update.contribution) is not None:
        said |= {"schema_digest": one.schema, "key": one.key or None, "signature": one.signature or None}
    return said
