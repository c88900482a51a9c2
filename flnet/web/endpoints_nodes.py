"""The endpoints that other nodes call: the part of the table of the REST API that is theirs."""

from __future__ import annotations

from typing import Any

from flnet.codec.binary import BINARY_TYPE
from flnet.errors import (
    BodyTooLarge,
    IdTaken,
    InvalidMessage,
    JobBusy,
    NoData,
    NotComparable,
    NotReady,
    ParamsRefused,
    RoundLost,
    StaleRound,
    UnknownModel,
    UnknownTrainer,
    UnreadableBody,
)
from flnet.messages import (
    Accuracy,
    AccuracyReply,
    Announce,
    AnnounceReply,
    AskVersion,
    ModelParams,
    Probe,
    ProbeReply,
    StartTraining,
    VersionReply,
)
from flnet.postponing import postponed
from flnet.refusals import ContributionRefused, NotAnnounced, OtherRounds
from flnet.signing.refusals import NotAccepted, Pending, SignatureNeeded, SignatureRefused
from flnet.web.endpoint import NODES, Endpoint, Refusals
from flnet.web.refusals import NotPinned

with postponed("flnet.web.schemas.trust"):
    from flnet.web.schemas import trust as keys

UNREADABLE: Refusals = (UnreadableBody, InvalidMessage, BodyTooLarge)
UNSIGNED: Refusals = (SignatureNeeded, SignatureRefused, NotAccepted)  # by a node of a mesh with a key
OF_A_ROUND: Refusals = (
    *(*UNSIGNED, *UNREADABLE),
    *(ParamsRefused, UnknownTrainer, NoData, StaleRound, RoundLost, NotReady),
)
NODE_ENDPOINTS = (
    Endpoint(
        "POST /announce",
        NODES,
        "A node says who it is and whom it knows",
        takes=Announce,
        answer=AnnounceReply,
        status=201,
        refuses=(*UNSIGNED, Pending, *UNREADABLE, IdTaken),
    ),
    Endpoint(
        "GET /introductions",
        NODES,
        "In a pinned mesh: whom people accepted here, for the nodes that take this one for an introducer",
        answer=lambda: keys.IntroductionsView,
        refuses=(*UNSIGNED, NotPinned),
    ),
    Endpoint(
        "POST /probe",
        NODES,
        "A node asks whether this one is there, and tells what is new of members",
        takes=Probe,
        answer=ProbeReply,
        refuses=(*UNSIGNED, *UNREADABLE, IdTaken),
    ),
    Endpoint(
        "POST /training",
        NODES,
        "A round starts",
        takes=StartTraining,
        types=(BINARY_TYPE,),
        answer=dict[str, Any],
        refuses=OF_A_ROUND,
    ),
    Endpoint(
        "POST /training/model_params",
        NODES,
        "What the sender learnt in a round, or why it takes no part",
        takes=ModelParams,
        types=(BINARY_TYPE,),
        answer=dict[str, Any],
        refuses=OF_A_ROUND,
    ),
    Endpoint(
        "GET /training/model_params/{digest}",
        NODES,
        "Parameters by their digest, whole or a range of them",
        answer_type=BINARY_TYPE,
        refuses=(*UNSIGNED, UnknownModel),
    ),
    Endpoint(
        "POST /training/model_params/accuracy",
        NODES,
        "How good the sender's average is; answered alike",
        takes=Accuracy,
        types=(BINARY_TYPE,),
        answer=AccuracyReply,
        refuses=(*UNSIGNED, *UNREADABLE, ParamsRefused, UnknownTrainer, NoData, NotComparable, JobBusy),
    ),
    Endpoint(
        "POST /training/version",
        NODES,
        "Without common rounds: which version of its model the sender has; answered alike",
        takes=AskVersion,
        answer=VersionReply,
        refuses=(
            *(*UNSIGNED, *UNREADABLE, ParamsRefused, UnknownTrainer, NoData, NotReady, NotAnnounced),
            *(ContributionRefused, OtherRounds),
        ),
    ),
)
