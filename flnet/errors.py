"""Every error of flnet, by whose fault it is; the fault decides the HTTP status.

    FlnetError
    ├── LocalError                500  this node is at fault
    │   ├── SettingsError              a setting breaks its rule; the node does not start
    │   ├── StartError                 the node cannot start: port in use, folder not writable
    │   ├── TrainerError               a trainer cannot be loaded, or failed while it worked
    │   │   ├── DataMissing            the trainer has no data; says what is missing and how to get it
    │   │   └── WorkerDied             the training child ended without an answer
    │   └── IllegalStep                a job took a step that its table does not know: a bug
    ├── PeerError                 422  the caller broke the protocol
    │   ├── UnreadableBody        422  the bytes are no message
    │   ├── BodyTooLarge          413  more bytes than this route takes
    │   ├── InvalidMessage        422  readable, but a field breaks its rule
    │   ├── ParamsRefused         422  wrong names, shapes or dtypes, or not finite
    │   ├── UnknownTrainer        404  no such trainer here
    │   ├── NoData                404  the trainer is here, but it has no data to take part with
    │   ├── UnknownPath           404  no such endpoint
    │   ├── StaleRound            409  for a round that is over
    │   ├── RoundLost             409  two initiators started this round; the other one comes first
    │   ├── IdTaken               409  another node already uses this id
    │   ├── JobBusy               409  it cannot be done now, such as a round
    │   ├── UnknownModel          404  no model of that digest is kept here
    │   ├── NotOffered            404  the trainer has no prediction, or no export in that format
    │   ├── InputRefused          422  not what the trainer predicts from
    │   ├── OwnMachineOnly        403  private parameters are handed out on this machine only
    │   ├── NotComparable         400  busy, in another round, or not averaged yet
    │   └── NotReady              503  the trainer is still loading, or the lane is at work; ask again
    └── TransportError                 a request to a peer failed; data in an event, never a crash
        ├── PeerUnreachable            no connection
        ├── PeerTimeout                no answer in time
        └── PeerRefused                the peer answered with an error

Wording lives in the classes, with what was expected and what came, so that it exists once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import ClassVar


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
        super().__init__(f"{missing}; {remedy}")
        self.missing = missing
        self.remedy = remedy


class WorkerDied(TrainerError):
    """The training child ended without an answer: killed, out of memory, or crashed."""

    code = "worker_died"


class IllegalStep(LocalError):
    """A job took a step that its table of legal steps does not hold: a bug in flnet."""

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
        got = "more" if got_bytes is None else f"{got_bytes} bytes"
        super().__init__(f"the body may have at most {limit_bytes} bytes here, but it has {got}")


class InvalidMessage(PeerError):
    """A readable body in which a field is missing or breaks its rule."""

    code = "invalid_message"


class ParamsRefused(PeerError):
    """Parameters that do not fit the job: names, shapes, dtypes, or numbers that are not finite."""

    code = "params_refused"


class UnknownTrainer(PeerError):
    """This node has no trainer of that id."""

    status = 404
    code = "unknown_trainer"

    def __init__(self, trainer: str, known: list[str]) -> None:
        super().__init__(f"this node has no trainer {trainer!r}; it has {', '.join(known) or 'none'}")


class NoData(PeerError):
    """The trainer exists here, but without data it takes part in no round."""

    status = 404
    code = "no_data"

    def __init__(self, trainer: str, reason: str) -> None:
        super().__init__(f"{trainer} takes part in no round here: {reason}")


class UnknownPath(PeerError):
    """No endpoint of that name takes messages."""

    status = 404
    code = "unknown_path"

    def __init__(self, path: str) -> None:
        super().__init__(f"no endpoint {path!r} takes messages here")


class StaleRound(PeerError):
    """A message for a round that is over here."""

    status = 409
    code = "stale_round"

    def __init__(self, got: int, current: int) -> None:
        super().__init__(f"the message is for round {got}, but round {current} has been reached here")
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
            f"round {number} was started by {got!r} and by {winner!r} at once; {winner!r} comes first and keeps it"
        )


class IdTaken(PeerError):
    """Another node already uses this id."""

    status = 409
    code = "id_taken"

    def __init__(self, peer_id: str) -> None:
        super().__init__(f"the id {peer_id!r} is this node's own; give the other node another FLNET_NODE_ID")


class JobBusy(PeerError):
    """What is asked of a job cannot be done now; the message says why."""

    status = 409
    code = "job_busy"


class UnknownModel(PeerError):
    """No model of this digest is kept here."""

    status = 404
    code = "unknown_model"


class NotOffered(PeerError):
    """The trainer offers no prediction, or no export in this format."""

    status = 404
    code = "not_offered"


class InputRefused(PeerError):
    """Inputs that the trainer cannot predict from: wrong shape, not finite, too many, no picture."""

    code = "input_refused"


class OwnMachineOnly(PeerError):
    """What holds private parameters is handed out to callers on the same machine only."""

    status = 403
    code = "own_machine_only"


class NotComparable(PeerError):
    """The accuracy exchange is not possible now: busy, another round, or not averaged yet."""

    status = 400
    code = "not_comparable"


class NotReady(PeerError):
    """Not now: the trainer is loading its data, or the lane was at work too long; ask the same again."""

    status = 503
    code = "not_ready"


class TransportError(FlnetError):
    """A request to a peer did not succeed."""

    code = "transport"


class PeerUnreachable(TransportError):
    """No connection to the peer."""

    code = "peer_unreachable"


class PeerTimeout(TransportError):
    """The peer did not answer in time."""

    code = "peer_timeout"


class PeerRefused(TransportError):
    """The peer answered with an error of its own."""

    code = "peer_refused"

    def __init__(self, status: int, error: str, message: str, round: int | None = None) -> None:
        super().__init__(f"answered {status} {error}: {message}")
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
        return cls(status, fields["error"][:64], str(fields.get("message", ""))[:500], round)
