"""The messages between nodes, and from people, as the thesis wrote them; a message that exists is valid."""

from flnet.messages.base import (
    FLOAT16,
    INT8,
    LAST_ROUND,
    MAX_PEERS,
    SAFETENSORS,
    Agreement,
    HexDigest,
    HyperParams,
    Message,
    Name,
    Packet,
    Peer,
    Unit,
)
from flnet.messages.mesh import MAX_INCARNATION, Announce, AnnounceReply, News, Probe, ProbeReply, StateWord
from flnet.messages.people import EditHyperParams, PersonMessage, PlanRounds, Trigger, Triggered
from flnet.messages.rounds import Accuracy, AccuracyReply, JobMessage, ModelParams, StartTraining, digest_of
from flnet.messages.series import ChoiceMessage, ReportMessage, SeriesMessage
from flnet.messages.versions import AskVersion, StatedVersion, VersionReply

__all__ = [
    "FLOAT16",
    "INT8",
    "LAST_ROUND",
    "MAX_INCARNATION",
    "MAX_PEERS",
    "SAFETENSORS",
    "Accuracy",
    "AccuracyReply",
    "Agreement",
    "Announce",
    "AnnounceReply",
    "AskVersion",
    "ChoiceMessage",
    "EditHyperParams",
    "HexDigest",
    "HyperParams",
    "JobMessage",
    "Message",
    "ModelParams",
    "Name",
    "News",
    "Packet",
    "Peer",
    "PersonMessage",
    "PlanRounds",
    "Probe",
    "ProbeReply",
    "ReportMessage",
    "SeriesMessage",
    "StartTraining",
    "StateWord",
    "StatedVersion",
    "Trigger",
    "Triggered",
    "Unit",
    "VersionReply",
    "digest_of",
]
