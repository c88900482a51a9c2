"""Every error of flnet, by whose fault it is; the fault decides the HTTP status.

    FlnetError
    ├── LocalError                500  this node is at fault
    │   ├── SettingsError              a setting breaks its rule; the node does not start
    │   ├── StartError                 the node cannot start: port in use, folder not writable
    │   ├── TrainerError               a trainer cannot be loaded, or failed while it worked
    │   │   ├── DataMissing            the trainer has no data; says what is missing and how to get it
    │   │   ├── SitsOut                the trainer has nothing to add to this round
    │   │   └── WorkerDied             the training child ended without an answer
    │   └── IllegalStep                a job took a step that its table does not know: a bug
    ├── PeerError                 422  the caller broke the protocol, or cannot be served
    │   ├── UnreadableBody        422  the bytes are no message
    │   ├── BodyTooLarge          413  more bytes than this route takes
    │   ├── InvalidMessage        422  readable, but a field breaks its rule
    │   ├── ParamsRefused         422  wrong names, shapes or dtypes, or not finite
    │   ├── ContributionRefused   422  the statement of an update is not signed as it says
    │   ├── LabelsRefused         422  a label space or a correspondence breaks a rule
    │   ├── InputRefused          422  not what the trainer predicts from
    │   ├── ImportRefused         422  data that are not safe to import, too many, or unreadable
    │   ├── DataThere             409  the trainer has data already
    │   ├── NoRoom                507  the disk has no room for an import
    │   ├── UnknownTrainer        404  no such trainer here
    │   ├── NoData                404  the trainer is here, but it has no data to take part with
    │   ├── UnknownPath           404  no such endpoint
    │   ├── UnknownModel          404  no model of that digest is kept here
    │   ├── UnknownPeer           404  no peer of that id is known here
    │   ├── UnknownKey            404  no accepted key is known here by that name
    │   ├── NotOffered            404  the trainer has no prediction, or no export in that format
    │   ├── StaleRound            409  for a round that is over
    │   ├── RoundLost             409  two initiators started this round; the other one comes first
    │   ├── OtherRounds           409  a message of common rounds at a node that trains by itself, or vice versa
    │   ├── IdTaken               409  another node already uses this id
    │   ├── StillThere            409  a peer that takes part cannot be forgotten
    │   ├── JobBusy               409  it cannot be done now, such as a round
    │   ├── NotComparable         400  busy, in another round, or not averaged yet
    │   ├── NotReady              503  the trainer is still loading, or the queue is at work; ask again
    │   ├── NotAnnounced          403  a message of a round from an unknown node
    │   ├── AddressRefused        403  the caller is at an address that this node does not call
    │   ├── TooManyMessages       429  more messages than this node takes from one node
    │   ├── SignInNeeded          401  for the operators of this node only
    │   ├── TooManyRequests       429  more requests than a person makes, or too many wrong tokens
    │   ├── OwnMachineOnly        403  private parameters are handed out on this machine only
    │   ├── SignatureNeeded       401  not signed, or not for this start of this node
    │   ├── SignatureRefused      403  a signature that is wrong, unreadable or used before
    │   ├── Pending               403  one of two pinned nodes has not accepted the other yet
    │   ├── NotAccepted           403  a pinned node does not accept the caller's key
    │   ├── NotPinned             409  only a pinned mesh accepts keys or refuses them
    │   └── TrustFull             409  no room for one more key
    └── TransportError                 a request to a peer failed; data in an event, never a crash
        ├── PeerUnreachable            no connection
        │   └── StrangerThere          the key of the node at that address is not accepted; nothing was sent
        ├── PeerTimeout                no answer in time
        ├── PeerRefused                the peer answered with an error
        └── Challenged                 the peer named whom a request has to be signed for; sign and repeat

Wording lives in the classes, with what was expected and what came, so that it exists once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import ClassVar

from flnet.fingerprints import short
from flnet.text import joined, restored, text


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
        """Machine-readable extras for the answer, beside the code and the words."""
        return {}


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
    """A trainer has nothing to add to this round, which is no failure; the message says why."""

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
    """The bytes are no message: broken, truncated, wrong encoding, nested too deep."""

    code = "unreadable_body"


class BodyTooLarge(PeerError):
    """More bytes than this route takes."""

    status = 413
    code = "body_too_large"

    def __init__(self, limit_bytes: int, got_bytes: int | None = None) -> None:
        got = text("more") if got_bytes is None else text("{count} bytes", got_bytes)
        super().__init__(text("the body may have at most {limit} bytes here, but it has {got}", limit_bytes, got))


class InvalidMessage(PeerError):
    """A readable body in which a field is missing or breaks its rule."""

    code = "invalid_message"


class ParamsRefused(PeerError):
    """Parameters that do not fit the job: names, shapes, dtypes, or numbers that are not finite."""

    code = "params_refused"


class ContributionRefused(PeerError):
    """What a node states of its update is not signed as it says."""

    status = 422
    code = "contribution_refused"


class LabelsRefused(PeerError):
    """A label space, or a table of how two of them correspond, breaks a rule."""

    status = 422
    code = "labels_refused"


class InputRefused(PeerError):
    """Inputs that the trainer cannot predict from: wrong shape, not finite, too many, no picture."""

    code = "input_refused"


class ImportRefused(PeerError):
    """Data that are not safe to take in, too many, or not what the trainer reads."""

    code = "import_refused"


class DataThere(PeerError):
    """The trainer has data in that place already; they are replaced on request only."""

    status = 409
    code = "data_there"


class NoRoom(PeerError):
    """The disk has no room for what is brought."""

    status = 507
    code = "no_room"


class UnknownTrainer(PeerError):
    """This node has no trainer of that id."""

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
    """The trainer exists here, but without data it takes part in no round."""

    status = 404
    code = "no_data"

    def __init__(self, trainer: str, reason: str) -> None:
        super().__init__(text("{trainer} takes part in no round here: {reason}", trainer, reason))


class UnknownPath(PeerError):
    """No endpoint of that name takes messages."""

    status = 404
    code = "unknown_path"

    def __init__(self, path: str) -> None:
        super().__init__(text("no endpoint {path} takes messages here", repr(path)))


class UnknownModel(PeerError):
    """No model of this digest is kept here."""

    status = 404
    code = "unknown_model"


class UnknownPeer(PeerError):
    """No peer of this id is known here."""

    status = 404
    code = "unknown_peer"

    def __init__(self, peer_id: str) -> None:
        super().__init__(text("no peer {peer} is known here", repr(peer_id[:64])))


class UnknownKey(PeerError):
    """No key is known here by what was said."""

    status = 404
    code = "unknown_key"

    def __init__(self, who: str) -> None:
        super().__init__(text("no accepted key is known here by {found}", repr(who[:80])))


class NotOffered(PeerError):
    """The trainer offers no prediction, or no export in this format."""

    status = 404
    code = "not_offered"


class StaleRound(PeerError):
    """A message for a round that is over here."""

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


class RoundLost(PeerError):
    """Two nodes started the same round; the one whose id comes first keeps it."""

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
    """A message of common rounds came to a node that trains and merges by itself, or the other way round."""

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
    """What is asked of a job cannot be done now; the message says why."""

    status = 409
    code = "job_busy"


class NotComparable(PeerError):
    """The accuracy exchange is not possible now: busy, another round, or not averaged yet."""

    status = 400
    code = "not_comparable"


class NotReady(PeerError):
    """Not now: the trainer is loading its data, or the compute queue was busy too long; ask the same again."""

    status = 503
    code = "not_ready"


class NotAnnounced(PeerError):
    """A message of a round came from a node that this one does not know."""

    status = 403
    code = "not_announced"

    def __init__(self, peer_id: str) -> None:
        super().__init__(
            text("this node does not know {peer}; announce it first with POST /announce", repr(peer_id))
        )


class AddressRefused(PeerError):
    """The caller is at an address that this node calls nobody at."""

    status = 403
    code = "address_refused"

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(text("this node calls nobody at {address}: {reason}", address, reason))


class TooManyMessages(PeerError):
    """More messages in a short time than this node takes from one node."""

    status = 429
    code = "too_many_messages"

    def __init__(self, seconds: float) -> None:
        self.seconds = max(1, math.ceil(seconds))
        super().__init__(text("too many messages in a short time; try again in {seconds} s", self.seconds))

    def details(self) -> Mapping[str, object]:
        """Seconds after which the caller may try again."""
        return {"retryAfter": self.seconds}


class SignInNeeded(PeerError):
    """For persons of this node only: sign in, send the operator's token, or ask from its own machine."""

    status = 401
    code = "sign_in_needed"


class TooManyRequests(PeerError):
    """More than persons can mean, or too many wrong tokens; `Retry-After` says when to come again."""

    status = 429
    code = "too_many_requests"

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after

    def details(self) -> Mapping[str, object]:
        """Seconds until it may be tried again."""
        return {"retryAfter": self.retry_after}


class OwnMachineOnly(PeerError):
    """What holds private parameters is handed out to callers on the same machine only."""

    status = 403
    code = "own_machine_only"


class SignatureNeeded(PeerError):
    """A request between nodes of a mesh with a key that is not signed, or not for this start of this node."""

    status = 401
    code = "signature_needed"


class SignatureRefused(PeerError):
    """A signature that is wrong, cannot be read, or was used before; the message says which."""

    status = 403
    code = "signature_refused"


class Pending(PeerError):
    """An announcement between nodes of a pinned mesh of which one has not accepted the other yet."""

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
    """A request to a node of a pinned mesh that does not accept the caller's key."""

    status = 403
    code = "not_accepted"


class NotPinned(PeerError):
    """The mesh is open or keyed, so there is nobody to accept or to turn away."""

    status = 409
    code = "not_pinned"


class TrustFull(PeerError):
    """So many keys are kept that there is no room for one more."""

    status = 409
    code = "trust_full"

    def __init__(self, most: int) -> None:
        super().__init__(text("{count} keys are kept already; forget one first", most))


class TransportError(FlnetError):
    """A request to a peer did not succeed.

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
        key: that key, base64; empty if it has none that a node could have.
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


class PeerRefused(TransportError):
    """The peer answered with an error of its own."""

    code = "peer_refused"

    def __init__(self, status: int, error: str, message: str, round: int | None = None) -> None:
        super().__init__(text("answered {status} {code}: {words}", status, error, message))
        self.answer_status = status
        self.error, self.answer, self.round = error, message, round

    @classmethod
    def read(cls, status: int, body: bytes) -> PeerRefused:
        """From an error answer; one that is not in flnet's form is quoted, shortened."""
        try:
            fields = json.loads(body)
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict) or not isinstance(fields.get("error"), str):
            return cls(status, "unknown", ascii(body[:200].decode(errors="replace")))
        current = fields.get("round")
        round = current if type(current) is int and 0 <= current <= 2**53 else None
        message = restored(str(fields.get("message", "")), fields.get("text"))
        return cls(status, fields["error"][:64], message[:500], round)


class Challenged(TransportError):
    """The peer named the receiver that a request must be signed for; the same request may succeed now."""

    code = "challenged"
