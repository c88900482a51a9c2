"""The table of the REST API: what each endpoint takes, answers and refuses. `openapi` makes its description of it.

The pages for people and their forms are not in it.
"""

from __future__ import annotations

from typing import Any

from flnet.errors import (
    InputRefused,
    InvalidMessage,
    JobBusy,
    NoData,
    NotOffered,
    NotReady,
    OwnMachineOnly,
    UnknownModel,
    UnknownTrainer,
)
from flnet.membership.naming import StillThere, UnknownPeer
from flnet.messages import (
    EditHyperParams,
    PlanRounds,
    Trigger,
    Triggered,
)
from flnet.postponing import postponed
from flnet.training.places import DataThere, ImportRefused, NoRoom
from flnet.trust import TrustFull, UnknownKey
from flnet.web.configuration import Setting
from flnet.web.endpoint import JOBS, MESH, MODELS, MONITORING, Endpoint
from flnet.web.endpoints_nodes import NODE_ENDPOINTS, UNREADABLE
from flnet.web.importing import ImportView
from flnet.web.mesh import Mesh
from flnet.web.models import PICTURES, Predict
from flnet.web.refusals import NotPinned
from flnet.web.trust import AcceptKey, NameKey
from flnet.web.upload import MULTIPART

with postponed(  # until somebody asks for the description
    *(f"flnet.web.schemas.{name}" for name in ("findings", "models", "predictions", "trust", "weights"))
):
    from flnet.web.schemas import findings, weights
    from flnet.web.schemas import models as views
    from flnet.web.schemas import predictions as models
    from flnet.web.schemas import trust as keys

_DIGEST = {"digest": "of the model that is asked; the one held if absent"}
ENDPOINTS = (
    Endpoint(
        "POST /training/trigger",
        JOBS,
        "Start one or more rounds",
        takes=Trigger,
        answer=Triggered,
        status=202,
        refuses=(*UNREADABLE, UnknownTrainer, JobBusy),
    ),
    Endpoint("GET /jobs", JOBS, "All jobs of this node", answer=lambda: list[views.JobView]),
    Endpoint("GET /jobs/{trainerId}", JOBS, "One job", answer=lambda: views.JobView, refuses=(UnknownTrainer,)),
    Endpoint(
        "PATCH /jobs/{trainerId}/params",
        JOBS,
        "Change hyper-parameters for the rounds that start here, or the merging rule of the job",
        takes=EditHyperParams,
        answer=lambda: views.JobView,
        refuses=(*UNREADABLE, UnknownTrainer, NotReady, JobBusy),
    ),
    Endpoint(
        "PUT /jobs/{trainerId}/schedule",
        JOBS,
        "When rounds start by themselves here; null for what the node's settings say",
        takes=PlanRounds,
        answer=lambda: views.JobView,
        refuses=(*UNREADABLE, UnknownTrainer, JobBusy),
    ),
    Endpoint(
        "POST /jobs/{trainerId}/stop",
        JOBS,
        "End the series of rounds after the one that is open",
        answer=lambda: views.JobView,
        refuses=(UnknownTrainer,),
    ),
    Endpoint(
        "POST /jobs/{trainerId}/pause",
        JOBS,
        "Sit out the rounds that open from now on",
        answer=lambda: views.JobView,
        refuses=(UnknownTrainer,),
    ),
    Endpoint(
        "POST /jobs/{trainerId}/resume",
        JOBS,
        "Take part in rounds again",
        answer=lambda: views.JobView,
        refuses=(UnknownTrainer,),
    ),
    Endpoint(
        "GET /jobs/{trainerId}/history",
        JOBS,
        "What came of every round, oldest first",
        query={"last": "so many of the newest rounds only; all if absent"},
        answer=lambda: list[views.RoundView],
        refuses=(UnknownTrainer, InvalidMessage),
    ),
    *(
        Endpoint(
            f"GET /jobs/{{trainerId}}/history.{form}",
            JOBS,
            f"The same as {form.upper()}, to take away",
            answer_type=kind,
            query={"last": "so many of the newest rounds only; all if absent"},
            refuses=(UnknownTrainer, InvalidMessage, *((NotOffered,) if form == "png" else ())),
        )
        for form, kind in (("csv", "text/csv"), ("svg", "image/svg+xml"), ("png", "image/png"))
    ),
    Endpoint(
        "GET /jobs/{trainerId}/gains",
        JOBS,
        "What the accuracy here would have been without each peer, where that is measured",
        answer=lambda: weights.GainsView,
        refuses=(UnknownTrainer,),
        shows_secrets=True,
    ),
    *(
        Endpoint(
            f"GET /jobs/{{trainerId}}/{kind}",
            MODELS,
            what,
            query=_DIGEST,
            answer=answer,
            refuses=(UnknownTrainer, UnknownModel, NotOffered, NotReady, NoData),
            shows_secrets=True,
        )
        for kind, what, answer in (
            (
                "labels",
                "How the label space of the own rows corresponds to that of the answers",
                lambda: findings.LabelsView,
            ),
            ("groups", "How many groups the own rows have, by k-means", lambda: findings.GroupsView),
        )
    ),
    Endpoint(
        "GET /jobs/{trainerId}/models",
        MODELS,
        "The models that are kept here, the one held first",
        answer=lambda: list[models.ModelView],
        refuses=(UnknownTrainer, NotReady, NoData),
    ),
    Endpoint(
        "GET /jobs/{trainerId}/models/{digest}",
        MODELS,
        "A model as a file",
        answer_type="application/octet-stream",
        query={"format": "safetensors, or onnx where offered; -common or -personal after it: one of two models"},
        refuses=(UnknownTrainer, UnknownModel, InvalidMessage, NotOffered, NotReady, OwnMachineOnly),
    ),
    Endpoint(
        "GET /jobs/{trainerId}/models/{digest}/card",
        MODELS,
        "What is known of a model, in Markdown",
        answer_type="text/markdown",
        refuses=(UnknownTrainer, UnknownModel),
    ),
    Endpoint(
        "POST /jobs/{trainerId}/models/{digest}/restore",
        MODELS,
        "Go back to a model: the next round that is started here begins with it",
        answer=lambda: views.JobView,
        refuses=(UnknownTrainer, UnknownModel, NotReady, NoData, JobBusy),
    ),
    Endpoint(
        "PUT /jobs/{trainerId}/models/{digest}/pin",
        MODELS,
        "Keep a model until it is unpinned",
        answer=lambda: models.ModelView,
        refuses=(UnknownTrainer, UnknownModel, NotReady, NoData, JobBusy),
    ),
    Endpoint(
        "DELETE /jobs/{trainerId}/models/{digest}/pin",
        MODELS,
        "Let a model go when its turn comes",
        answer=lambda: models.ModelView,
        refuses=(UnknownTrainer, UnknownModel, NotReady, NoData),
    ),
    Endpoint(
        "POST /jobs/{trainerId}/predict",
        MODELS,
        "What a model says of inputs, or of a picture",
        takes=Predict,
        types=PICTURES,
        query=_DIGEST,
        answer=lambda: models.PredictionView,
        refuses=(*UNREADABLE, InputRefused, UnknownTrainer, UnknownModel, NotOffered, NotReady),
    ),
    Endpoint(
        "POST /data/{trainerId}/import",
        JOBS,
        "Bring data to a trainer: a file, an archive, or the files of a form",
        types=(MULTIPART, "application/octet-stream"),
        query={
            "name": "of the file, where the body is no form",
            "replace": "true: keep the old data aside",
            "add": "true: further examples beside those that are there",
        },
        answer=ImportView,
        refuses=(*UNREADABLE, UnknownTrainer, JobBusy, ImportRefused, DataThere, NoRoom),
    ),
    Endpoint("GET /info", MESH, "This node, its jobs and its peers", answer=lambda: views.InfoView),
    Endpoint("GET /peers", MESH, "The other nodes", answer=lambda: list[views.PeerView]),
    Endpoint("GET /mesh", MESH, "This node and its peers with their jobs, for pictures and charts", answer=Mesh),
    Endpoint("GET /events", MESH, "What happens, as server-sent events", answer_type="text/event-stream"),
    Endpoint(
        "DELETE /peers/{peer}",
        MESH,
        "Forget a peer that is dead or left, or whose name another node claims: the name is free again",
        answer=lambda: list[views.PeerView],
        refuses=(UnknownPeer, StillThere),
    ),
    Endpoint(
        "GET /trust",
        MESH,
        "In a pinned mesh: keys that are accepted, that wait for a person, and that stay out",
        answer=lambda: keys.TrustView,
        shows_secrets=True,
    ),
    Endpoint(
        "POST /trust/accept",
        MESH,
        "Trust a key, and those whom its node introduces if that is wanted",
        takes=AcceptKey,
        answer=lambda: keys.AcceptedView,
        refuses=(*UNREADABLE, NotPinned, TrustFull),
    ),
    Endpoint(
        "POST /trust/reject",
        MESH,
        "Let a key wait no longer: it stays out until a person accepts it",
        takes=NameKey,
        answer=lambda: keys.TrustView,
        refuses=(*UNREADABLE, NotPinned),
    ),
    Endpoint(
        "POST /trust/forget",
        MESH,
        "Trust a key no longer, nor those whom only its node introduced",
        takes=NameKey,
        answer=lambda: keys.TrustView,
        refuses=(*UNREADABLE, NotPinned, UnknownKey),
    ),
    Endpoint("GET /events.jsonl", MESH, "What happened, a line each", answer_type="application/x-ndjson"),
    Endpoint(
        "GET /settings",
        MESH,
        "The settings of this node",
        answer=list[Setting],
        shows_secrets=True,
    ),
    Endpoint("GET /openapi.json", MESH, "This description", answer=dict[str, Any]),
    Endpoint("GET /health", MONITORING, "Answers as long as the process does", answer=lambda: views.HealthView),
    Endpoint(
        "GET /ready",
        MONITORING,
        "Whether this node can take part in rounds",
        answer=lambda: views.ReadyView,
        alike=(503,),
    ),
    Endpoint("GET /metrics", MONITORING, "Figures of this node, for Prometheus", answer_type="text/plain"),
    *NODE_ENDPOINTS,
)
