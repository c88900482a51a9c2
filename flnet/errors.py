"""All errors of flnet. The class says whose fault an error is, and with it the HTTP status.

    FlnetError
    ├── LocalError                500  this node is at fault
    │   ├── SettingsError              a setting breaks its rule; the node does not start
    │   ├── StartError                 the node cannot start: port in use, folder not writable
    │   ├── TrainerError               a trainer cannot be loaded, or failed while it worked
    │   │   ├── DataMissing            the trainer has no data; says what is missing and how to get it
    │   │   ├── SitsOut                the trainer has nothing to train on in this round
    │   │   └── WorkerDied             the training child ended without an answer
    │   └── IllegalStep                a job took a step that its table does not know: a bug
    ├── PeerError                 422  the caller broke the protocol, or cannot be served
    │   ├── UnreadableBody        422  the body is not a message
    │   ├── BodyTooLarge          413  the body is larger than the endpoint accepts
    │   ├── InvalidMessage        422  a field is missing or has a wrong value
    │   ├── ParamsRefused         422  wrong names, shapes or dtypes, or not finite
    │   ├── ContributionRefused   422  the signature of an update's statement is wrong
    │   ├── LabelsRefused         422  a label space or a correspondence breaks a rule
    │   ├── AlignmentRefused      422  the rows of vertical federated learning cannot be aligned
    │   ├── CutLayerRefused       422  outputs or gradients of a cut layer have a wrong shape, or are not finite
    │   ├── BatchRefused          409  the message is for another epoch, step or batch of a split network
    │   ├── OtherBottomModel      409  a node's bottom model is not the one with which the epoch ended
    │   ├── InputRefused          422  the trainer cannot predict from these inputs
    │   ├── ImportRefused         422  the data are not safe to import, too large, or unreadable
    │   ├── DataThere             409  the trainer already has data
    │   ├── NoRoom                507  the disk has no room for an import
    │   ├── UnknownTrainer        404  no such trainer here
    │   ├── NoData                404  the trainer exists here, but has no data
    │   ├── UnknownPath           404  no such endpoint for messages
    │   ├── UnknownModel          404  this node keeps no model with that digest
    │   ├── NoProposal            404  nobody proposes that aggregation rule any more
    │   ├── UnknownPeer           404  this node knows no peer with that id
    │   ├── UnknownKey            404  this node has accepted no key with that name
    │   ├── NotOffered            404  the trainer has no prediction, or no export in that format
    │   ├── StaleRound            409  the message is for a round that is over
    │   ├── RoundAhead            409  the message is for a round that is too far ahead
    │   ├── RoundLost             409  two nodes started this round; the other one's start counts
    │   ├── OtherRounds           409  one node has common rounds, the other one is asynchronous
    │   ├── IdTaken               409  another node already uses this id
    │   ├── StillThere            409  a peer that takes part cannot be forgotten
    │   ├── JobBusy               409  the job cannot do this now
    │   ├── NotComparable         400  the node is busy, in another round, or has not averaged yet
    │   ├── NotReady              503  the trainer is loading its data, or the compute queue is busy; try again
    │   ├── NotAnnounced          403  the sender of a round's message is unknown
    │   ├── OtherMesh             403  the caller is a node of a mesh with another name
    │   ├── AddressRefused        403  this node does not call the address of the caller
    │   ├── TooManyMessages       429  one node sent more messages than this node accepts
    │   ├── SignInNeeded          401  only the operator of this node may do this
    │   ├── TooManyRequests       429  too many requests, or too many wrong tokens
    │   ├── OwnMachineOnly        403  only callers on this machine get private parameters
    │   ├── SignatureNeeded       401  the request is not signed, or signed for an earlier start of this node
    │   ├── SignatureRefused      403  the signature is wrong, unreadable, or was used before
    │   ├── Pending               403  one of two pinned nodes has not accepted the other yet
    │   ├── NotAccepted           403  a pinned node does not accept the caller's key
    │   ├── NotPinned             409  only in a pinned mesh are keys accepted or rejected
    │   └── TrustFull             409  no room for another key
    └── TransportError                 a request to a peer failed; data in an event, never a crash
        ├── PeerUnreachable            no connection
        │   └── StrangerThere          the key of the node at that address is not accepted; nothing was sent
        ├── PeerTimeout                no answer in time
        ├── TooManyWaiting             not sent, as many messages wait for peers that do not answer
        ├── OtherMeshThere             a node of a mesh with another name answered
        ├── PeerRefused                the peer answered with an error
        ├── RangeIgnored               the whole body came where a part of it was asked for
        └── Challenged                 the peer named whom a request has to be signed for; sign and repeat

Each class contains the wording of its message, with what was expected and what was received.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from typing import ClassVar, TypeVar

from flnet.fingerprints import short
from flnet.text import Text, joined, restored, text

TLS_NEEDED = "tls_needed"  # the code with which a node of a pinned mesh answers who speaks without TLS


class FlnetError(Exception):
    """Root of the tree; only its children are raised."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "error"

    def __init__(self, message: str) -> None:
        if type(self) is FlnetError:
            raise TypeError("FlnetError is the root of the tree; raise one of its children")
        super().__init__(message)
        self.message = message

    def details(self) -> Mapping[str, object]:
        """Machine-readable extras for the answer, in addition to the code and the message."""
        return {}


E = TypeVar("E", bound=FlnetError)


def without_frames(error: E) -> E:
    """The error without the calls that it came through, to be kept, or raised again by somebody else.

    The frames of these calls hold all that they worked with, perhaps parameters of many MB, and one of them may hold the
    error: a circle, which stays until Python's collector comes.
    """
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


class LocalError(FlnetError):
    """This node is at fault."""

    code = "internal_error"


class SettingsError(LocalError):
    """A setting is unknown or breaks its rule; the node does not start."""

    code = "wrong_setting"


class StartError(LocalError):
    """The node cannot start for a reason outside its settings."""

    code = "cannot_start"


class TrainerError(LocalError):
    """A trainer cannot be loaded, or failed while it trained or evaluated."""

    code = "trainer_failed"


class DataMissing(TrainerError):
    """A trainer has no data. The message says what is missing and how to get it."""

    code = "data_missing"

    def __init__(self, missing: str, remedy: str) -> None:
        super().__init__(joined([missing, remedy]))
        self.missing = missing
        self.remedy = remedy


class SitsOut(TrainerError):
    """A trainer has nothing to train on in this round, which is no failure. The message says why."""

    code = "sits_out"


class WorkerDied(TrainerError):
    """The training child ended without an answer: killed, out of memory, or crashed."""

    code = "worker_died"


class IllegalStep(LocalError):
    """A job took a step that is not in its table of legal steps: a bug in flnet."""

    code = "illegal_step"


class PeerError(FlnetError):
    """The caller broke the protocol or sent something unusable."""

    status = 422
    code = "refused"


class UnreadableBody(PeerError):
    """The body is not a message: it is damaged, cut off, wrongly encoded or nested too deeply."""

    code = "unreadable_body"


class BodyTooLarge(PeerError):
    """The body is larger than the endpoint accepts."""

    status = 413
    code = "body_too_large"

    def __init__(self, limit_bytes: int, got_bytes: int | None = None) -> None:
        got = text("more") if got_bytes is None else text("{count} bytes", got_bytes)
        super().__init__(text("the body may have at most {limit} bytes here, but it has {got}", limit_bytes, got))


class InvalidMessage(PeerError):
    """A field of the message is missing or has a wrong value."""

    code = "invalid_message"


class ParamsRefused(PeerError):
    """The parameters do not fit the job: names, shapes or dtypes differ, or a number is not finite."""

    code = "params_refused"


class ContributionRefused(PeerError):
    """The signature of a node's statement about its update is wrong."""

    status = 422
    code = "contribution_refused"


class LabelsRefused(PeerError):
    """A label space, or a table of how two of them correspond, breaks a rule."""

    status = 422
    code = "labels_refused"


class AlignmentRefused(PeerError):
    """Rows cannot be aligned: an id column breaks a rule, or another holder's list is damaged, repeated or false."""

    status = 422
    code = "alignment_refused"


class CutLayerRefused(PeerError):
    """Outputs or gradients at the cut layer of a split network have a wrong shape or dtype, or are not finite."""

    code = "cut_layer_refused"


class BatchRefused(PeerError):
    """The message does not belong to the epoch, step or batch that the split network has reached here."""

    status = 409
    code = "batch_refused"


class OtherBottomModel(PeerError):
    """The bottom model of a feature holder is not the one that it had when the common epoch ended."""

    status = 409
    code = "other_bottom_model"

    def __init__(self, peer: str, epoch: int, got: str, expected: str) -> None:
        super().__init__(
            text(
                "{peer} goes on from epoch {epoch} with bottom model {got}, but ended that epoch with {expected}",
                repr(peer),
                epoch,
                got[:12],
                expected[:12],
            )
        )


class InputRefused(PeerError):
    """The trainer cannot predict from these inputs: wrong shape, not finite, too many, or not an image."""

    code = "input_refused"


class ImportRefused(PeerError):
    """The data are not safe to import, too large, or not in a format that the trainer reads."""

    code = "import_refused"


class DataThere(PeerError):
    """The trainer already has data. They are only replaced if the request says so."""

    status = 409
    code = "data_there"


class NoRoom(PeerError):
    """The disk has no room for the import."""

    status = 507
    code = "no_room"


class UnknownTrainer(PeerError):
    """This node has no trainer with this id."""

    status = 404
    code = "unknown_trainer"

    def __init__(self, trainer: str, known: list[str]) -> None:
        super().__init__(
            text(
                "this node has no trainer {trainer}; it has {known}",
                repr(trainer),
                ", ".join(known) or text("none"),
            )
        )


class NoData(PeerError):
    """The trainer exists here, but has no data, so it takes part in no round."""

    status = 404
    code = "no_data"

    def __init__(self, trainer: str, reason: str) -> None:
        super().__init__(text("{trainer} takes part in no round here: {reason}", trainer, reason))


class UnknownPath(PeerError):
    """No endpoint for messages has this path."""

    status = 404
    code = "unknown_path"

    def __init__(self, path: str) -> None:
        super().__init__(text("no endpoint {path} takes messages here", repr(path)))


class UnknownModel(PeerError):
    """This node keeps no model with this digest."""

    status = 404
    code = "unknown_model"


class NoProposal(PeerError):
    """Nobody proposes this aggregation rule any more."""

    status = 404
    code = "no_proposal"


class UnknownPeer(PeerError):
    """This node knows no peer with this id."""

    status = 404
    code = "unknown_peer"

    def __init__(self, peer_id: str) -> None:
        super().__init__(text("no peer {peer} is known here", repr(peer_id[:64])))


class UnknownKey(PeerError):
    """This node has accepted no key with this name or fingerprint."""

    status = 404
    code = "unknown_key"

    def __init__(self, who: str) -> None:
        super().__init__(text("no accepted key is known here by {found}", repr(who[:80])))


class NotOffered(PeerError):
    """The trainer offers no prediction, or no export in this format."""

    status = 404
    code = "not_offered"


class StaleRound(PeerError):
    """The message is for a round that is over on this node."""

    status = 409
    code = "stale_round"

    def __init__(self, got: int, current: int) -> None:
        super().__init__(
            text("the message is for round {number}, but round {current} has been reached here", got, current)
        )
        self.current = current

    def details(self) -> Mapping[str, object]:
        """The round this node is in, so that the caller can catch up."""
        return {"round": self.current}


class RoundAhead(PeerError):
    """The message is for a round that is too far ahead of the one that this node is in."""

    status = 409
    code = "round_ahead"

    def __init__(self, got: int, current: int) -> None:
        super().__init__(
            text(
                "the message is for round {number}, but this node has reached round {current} only, and no majority "
                "of the other members confirms it; if that is where the mesh is, a person can begin a new numbering",
                got,
                current,
            )
        )
        self.current = current

    def details(self) -> Mapping[str, object]:
        """The round this node is in."""
        return {"round": self.current}


class RoundLost(PeerError):
    """Two nodes started the same round. The start of the node whose id comes first counts."""

    status = 409
    code = "round_lost"

    def __init__(self, number: int, got: str, winner: str) -> None:
        super().__init__(
            text(
                "round {number} was started by {one} and by {other} at once; {winner} comes first and keeps it",
                number,
                repr(got),
                repr(winner),
                repr(winner),
            )
        )


class OtherRounds(PeerError):
    """The message is for common rounds, but this node is asynchronous, or the other way round."""

    status = 409
    code = "other_rounds"


class IdTaken(PeerError):
    """Another node already uses this id."""

    status = 409
    code = "id_taken"

    def __init__(self, peer_id: str) -> None:
        super().__init__(
            text("the id {peer} is this node's own; give the other node another FLNET_NODE_ID", repr(peer_id))
        )


class StillThere(PeerError):
    """The peer takes part, so it cannot be forgotten."""

    status = 409
    code = "still_there"

    def __init__(self, peer_id: str) -> None:
        super().__init__(
            text("{peer} takes part here; only who died, left, or shares its name can be forgotten", repr(peer_id))
        )


class JobBusy(PeerError):
    """The job cannot do this now. The message says why."""

    status = 409
    code = "job_busy"


class NotComparable(PeerError):
    """The accuracies cannot be exchanged now: the node is busy, in another round, or has not averaged yet."""

    status = 400
    code = "not_comparable"


class NotReady(PeerError):
    """The trainer is loading its data, or the compute queue was busy for too long. The request can be repeated."""

    status = 503
    code = "not_ready"


class NotAnnounced(PeerError):
    """The message belongs to a round, but this node does not know its sender."""

    status = 403
    code = "not_announced"

    def __init__(self, peer_id: str) -> None:
        super().__init__(
            text("this node does not know {peer}; announce it first with POST /announce", repr(peer_id))
        )


class AddressRefused(PeerError):
    """The caller has an address that this node does not call."""

    status = 403
    code = "address_refused"

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(text("this node calls nobody at {address}: {reason}", address, reason))


class TooManyMessages(PeerError):
    """One node sent more messages in a short time than this node accepts."""

    status = 429
    code = "too_many_messages"

    def __init__(self, seconds: float) -> None:
        self.seconds = max(1, math.ceil(seconds))
        super().__init__(text("too many messages in a short time; try again in {seconds} s", self.seconds))

    def details(self) -> Mapping[str, object]:
        """Seconds after which the caller may try again."""
        return {"retryAfter": self.seconds}


class OtherMesh(PeerError):
    """The caller is a node of a mesh with another name."""

    status = 403
    code = "other_mesh"

    def __init__(self, theirs: str, ours: str) -> None:
        """Args:
        theirs: name of the caller's mesh.
        ours: name of this node's mesh.
        """
        super().__init__(
            text("this node belongs to the mesh {mesh}, and the caller to {other} (FLNET_MESH_NAME)", ours, theirs)
        )


class SignInNeeded(PeerError):
    """Only the operator may do this: sign in, send the operator's token, or call from the node's own machine."""

    status = 401
    code = "sign_in_needed"


class TooManyRequests(PeerError):
    """Too many requests, or too many wrong tokens. `Retry-After` says when to try again."""

    status = 429
    code = "too_many_requests"

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after

    def details(self) -> Mapping[str, object]:
        """Seconds after which the caller may try again."""
        return {"retryAfter": self.retry_after}


class OwnMachineOnly(PeerError):
    """Only callers on this machine get a model with private parameters."""

    status = 403
    code = "own_machine_only"


class SignatureNeeded(PeerError):
    """The request is not signed, or signed for another node or an earlier start of this one."""

    status = 401
    code = "signature_needed"


class SignatureRefused(PeerError):
    """The signature is wrong, cannot be read, or was used before. The message says which."""

    status = 403
    code = "signature_refused"


class Pending(PeerError):
    """One of the two nodes of a pinned mesh has not accepted the other yet."""

    status = 403
    code = "pending"

    def __init__(self, words: str, node: str = "") -> None:
        """Args:
        node: the name of the one that answers.
        """
        super().__init__(words)
        self.node = node

    def details(self) -> Mapping[str, object]:
        """The name of the answering node, for the operator who may accept it."""
        return {"node": self.node}


class NotAccepted(PeerError):
    """The mesh is pinned, and this node does not accept the caller's key."""

    status = 403
    code = "not_accepted"


class NotPinned(PeerError):
    """The mesh is open or keyed, so there are no keys to accept or to reject."""

    status = 409
    code = "not_pinned"


class TrustFull(PeerError):
    """The node keeps the maximum number of keys and has no room for another one."""

    status = 409
    code = "trust_full"

    def __init__(self, most: int) -> None:
        super().__init__(text("{count} keys are kept already; forget one first", most))


class TransportError(FlnetError):
    """A request to a peer failed.

    Attributes:
        is_temporary: whether the same request may succeed a moment later.
    """

    code = "transport"
    is_temporary = False


class PeerUnreachable(TransportError):
    """No connection to the peer."""

    code = "peer_unreachable"


class StrangerThere(PeerUnreachable):
    """The node at an address has a key that is not accepted here; nothing was sent to it.

    Attributes:
        key: that key in base64; empty if it is not a key that a node can have.
    """

    code = "stranger_there"

    def __init__(self, address: str, key: str) -> None:
        shown = text(
            "{address}: its key is not accepted here (its fingerprint begins with {part})", address, short(key)
        )
        super().__init__(shown if key else text("{address}: its key is not accepted here", address))
        self.key = key


class PeerTimeout(TransportError):
    """The peer did not answer in time."""

    code = "peer_timeout"


class TooManyWaiting(TransportError):
    """A message was not sent: too many wait for peers that do not answer."""

    code = "too_many_waiting"


class OtherMeshThere(TransportError):
    """A node of a mesh with another name answered."""

    code = "other_mesh_there"

    def __init__(self, address: str, theirs: str, ours: str) -> None:
        """Args:
        theirs: name of the mesh of the node at the address.
        ours: name of this node's mesh.
        """
        super().__init__(
            text(
                "{address}: the node there belongs to the mesh {mesh}, and this one to {other} (FLNET_MESH_NAME)",
                address,
                theirs,
                ours,
            )
        )


class PeerRefused(TransportError):
    """The peer answered with an error of its own."""

    code = "peer_refused"

    def __init__(self, status: int, error: str, message: str, round: int | None = None) -> None:
        super().__init__(text("answered {status} {code}: {words}", status, error, message))
        self.answer_status = status
        self.error, self.answer, self.round = error, message, round

    @classmethod
    def read(cls, status: int, body: bytes) -> PeerRefused:
        """Read an error from an answer. Only the words of a node are shown.

        Another service may be at the address: whoever named it is not to read here what that service answers.
        """
        try:
            fields = json.loads(body)
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict) or not isinstance(fields.get("error"), str):
            fields = {"error": ""}
        code, message = fields["error"], restored(str(fields.get("message", ""))[:500], fields.get("text"))
        if code not in _codes() and not isinstance(message, Text):
            return cls(status, "unknown", text("this is not the answer of a node"))
        current = fields.get("round")
        round = current if type(current) is int and 0 <= current <= 2**53 else None
        return cls(status, code[:64], message, round)


def _codes() -> Collection[str]:
    """The codes with which nodes refuse; nodes of later versions may have more, and state their texts."""
    kinds: list[type[FlnetError]] = [FlnetError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    return {TLS_NEEDED, *(kind.code for kind in kinds)}


class RangeIgnored(TransportError):
    """The peer sent the whole body where a part of it was asked for; it may know no ranges."""

    code = "range_ignored"


class Challenged(TransportError):
    """The peer named the receiver that a request must be signed for; the same request may succeed now."""

    code = "challenged"
