"""Nodes that exist in memory only, each in a state that its pages show.

They are the twins of tests/web, which move along with the code; what must stay is the HTML.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from unittest.mock import patch

from flnet.errors import InputRefused
from flnet.settings import load_settings
from flnet.text import joined, text
from flnet.web.app import create_app
from flnet.web.auth.operator_token import OperatorToken
from tests.frozen.pages import Asked
from tests.web.fake_job import FakeJob
from tests.web.fake_node import FakeNode
from tests.web.page.test_diagnostics import ESTIMATE, GROUPS, KNOWN, WAITING
from tests.web.page.test_keys import KeyNode
from tests.web.page.test_predict import PNG, multipart
from tests.web.page.test_weights import TOO_FAR
from tests.web.page.test_weights import measured as gains
from tests.web.templates import TEMPLATES
from tests.web.trusting import FRIEND, STRANGER, THIRD, PinnedNode
from tests.web.view_nodes import DIGITS, NEW, OLD, TABLE, ViewNode, with_two_models

TOKEN = "0123456789abcdefghij"
SETTINGS = load_settings({}, {})
Site = tuple[Any, Sequence[Asked]]
SPOKEN = text("averaged {updates}: all expected updates arrived{because}", text("{count} updates", 3), "")
EVENTS = (
    ("peer_joined", text("{peer} joined at {address}", "east", "192.0.2.1:4000"), ""),
    ("peer_dead", "east does not answer; it is taken for dead", ""),
    ("round_opened", text("round {number} of {trainer} was started by {initiator}", 3, "MNIST", "east"), "MNIST"),
    ("trained", text("trained on {count} examples; accuracy here {accuracy}", 379, "0.4614"), "MNIST"),
    ("update_received", text("update from {peer}: {count} of {number}", "n03", 3, 7), "MNIST"),
    (
        "peer_declined",
        text("{peer} takes no part: {reason}", "n06", "the start of this round did not reach it"),
        "MNIST",
    ),
    (
        "refused",
        text(
            "{peer} refused {path}: {reason}",
            "n00",
            "/training/model_params",
            text("the message is for round {number}, but round {current} has been reached here", 3, 3),
        ),
        "",
    ),
    ("measured", text("accuracy after averaging {accuracy}", "0.8077"), "MNIST"),
    (
        "round_closed",
        joined(
            [
                text(
                    "round {number} closed: {outcome}",
                    1,
                    text(
                        "averaged {updates}: all expected updates arrived{because}",
                        text("{count} updates", 5),
                        "",
                    ),
                ),
                text("accuracy here {accuracy} before, {later} after", "0.0240", "0.4185"),
            ]
        ),
        "MNIST",
    ),
    (
        "announce_failed",
        text(
            "{address} does not answer the announcement ({reason}); trying again until it does",
            "10.0.0.2:4000",
            text("lost"),
        ),
        "",
    ),
    (
        "round_scheduled",
        text("the schedule starts round {number}: {reason}", 3, text("{time} after the last round", "6h")),
        "MNIST",
    ),
    ("unknown_kind", "a text <b>that</b> nobody translated", ""),
)


def client_of(node: FakeNode, settings: Any = SETTINGS, token: OperatorToken | None = None) -> Any:
    """What a browser is to the node's app."""
    app = create_app(node, settings, token) if token is not None else create_app(node, settings)
    app.jinja_env.bytecode_cache = TEMPLATES
    return app.test_client()


def sets(of: object, name: str, value: Any) -> Callable[[], None]:
    """Gives an attribute this value, when it is called."""
    return lambda: setattr(of, name, value)


def history(count: int) -> list[dict[str, Any]]:
    """Records of rounds."""
    return [
        {
            "round": number,
            "pre_fedavg_accuracy": 0.5 + number / 100,
            "post_fedavg_accuracy": 0.55 + number / 100,
            "outcome": SPOKEN,
            "contributors": ["NODE_1", "NODE_2", "NODE_3"],
            "exchanged_with": "NODE_2" if number % 3 == 2 else None,
            "examples": 300 + number,
            "seconds": {
                "fetch": 0.25,
                "train": 1.5,
                "wait": 0.75,
                "average": 0.004,
                "measure": 0.1,
                "exchange": 0.2,
            },
            "bytes": {"sent": 1_200_000 + number, "received": 431_000},
            "weighed": {
                "NODE_1": {"weight": 0.6, "norm": 1.0, "cosine": 0.9, "consistency": 0.8},
                "NODE_2": {"weight": 0.395, "norm": 1.2, "cosine": 0.8, "consistency": 0.7},
                "NODE_3": {
                    "weight": 0.005,
                    "norm": 9.5,
                    "cosine": -0.5,
                    "reason": TOO_FAR,
                },
            },
            "contributions": [{"peer": "NODE_1", "examples": 100}, {"peer": "NODE_2", "examples": 100}],
        }
        for number in range(count)
    ]


async def fresh() -> Site:
    """A node that has not trained yet; forms that are refused and taken."""
    node = FakeNode()
    first = {"trainerId": "MNIST"}
    return client_of(node), [
        Asked("overview", "/"),
        Asked("fragment", "/?fragment=main"),
        Asked("hyper-parameters saved", "/training/params/form", {**first, "e": "3", "u": "0.5", "b": "16"}),
        Asked("hyper-parameters refused", "/training/params/form", {**first, "e": "0"}),
        Asked("merging rule", "/training/params/form", {**first, "aggregation": "median"}),
        Asked("merging rule refused", "/training/params/form", {**first, "aggregation": "best"}),
        Asked("no such trainer", "/training/trigger/form", {"trainerId": "NONE"}),
        Asked("no trainer", "/training/trigger/form", {}),
        Asked("no such order", "/training/steer/form", {**first, "do": "jump"}),
        Asked("paused", "/training/steer/form", {**first, "do": "pause"}),
        Asked("resumed", "/training/steer/form", {**first, "do": "resume"}),
        Asked("stopped", "/training/steer/form", {**first, "do": "stop"}),
        Asked("scheduled", "/training/schedule/form", {**first, "when": "every 6h, new 100"}),
        Asked("schedule refused", "/training/schedule/form", {**first, "when": "sometimes"}),
        Asked("as the settings say", "/training/schedule/form", {**first, "do": "reset"}),
        Asked("started", "/training/trigger/form", first),
        Asked("busy", "/training/trigger/form", first),
        Asked("rounds refused", "/training/trigger/form", {**first, "rounds": "0"}),
        Asked("in training", "/"),
        Asked("nothing here", "/nothing"),
        Asked("unknown trainer", "/view/models/NONE"),
        Asked("no keys", "/view/keys"),
        Asked("settings", "/view/settings"),
        Asked("api", "/view/api"),
        Asked("data", "/view/data"),
        Asked("models", "/view/models/MNIST"),
        Asked("prediction", "/view/predict/MNIST"),
        Asked("groups", "/view/groups/MNIST"),
    ]


async def alone() -> Site:
    """A node without trainers."""
    node = FakeNode()
    node.jobs.clear()
    paths = ("/", "/view/models", "/view/predict", "/view/data", "/view/keys")
    return client_of(node), [Asked(path, path) for path in paths]


async def in_rounds() -> Site:
    """A node after rounds, with peers that do as well as they can, and events."""
    node = FakeNode()
    job = node.jobs["MNIST"]
    job.records.extend(history(14))
    job.round, job.before, job.after, job.digest, job.exchanged = 13, 0.63, 0.68, "ab" * 32, True
    job.metrics = {"after": {"auc": 0.71234, "rmse": 12.5}}
    job.outcome = SPOKEN
    little = [{"peer": "NODE_3", "since": 4, "weight": 0.005, "fair": 0.3, "reason": ""}]
    job.more = {"merging_rule": "median", "counts_little": little, "exchanged_with": "NODE_2", "finds": "labels"}
    node.leave_one_out.found = gains({"NODE_2": 0.7, "NODE_3": 0.76}, {"NODE_2": 0.72, "NODE_3": 0.75})
    other = FakeNode("NODE_2", 4001)
    other.jobs["MNIST"].after, other.jobs["MNIST"].round = 0.7777, 13
    other.jobs["MNIST"].more = {"merging_rule": "agg1"}
    other.jobs["CIFAR10"] = FakeJob("CIFAR10", "CIFAR-10 Dataset", job.hyper, phase="GATHERING", round=2)
    node.add_peer("NODE_2", "127.0.0.1:4001")
    node.add_peer("NODE_3", "127.0.0.1:4002", "dead", "did not answer in 2 s")
    node.add_peer("NODE_4", "127.0.0.1:4003", "suspect", "did not answer in 2 s")
    node.add_peer("NODE_5", "127.0.0.1:4004", "left")
    node.around = [
        {"id": "NODE_2", "address": "127.0.0.1:4001", "info": other.info(), "error": None},
        {"id": "NODE_3", "address": "127.0.0.1:4002", "info": None, "error": "no answer"},
    ]
    node.rounds_around = {("NODE_2", "MNIST"): ((11, 0.6), (12, 0.7), (13, 0.7777))}
    for kind, words, trainer in EVENTS:
        node.feed.publish(kind, words, trainer)
    return client_of(node), [
        Asked("overview", "/"),
        Asked("overview from afar", "/", far=True),
        Asked(
            "without what peers bring",
            "/",
            before=sets(node.leave_one_out, "found", {**node.leave_one_out.found, "on": False}),
        ),
    ]


def _phases(job: FakeJob) -> list[Asked]:
    def become(**fields: Any) -> Callable[[], None]:
        def change() -> None:
            usual: dict[str, Any] = {
                "progress": None,
                "error": None,
                "goal": None,
                "waiting_for": [],
                "rounds_left": 0,
                "more": {},
            }
            vars(job).update({**usual, "paused": False, "outcome": "", **fields})

        return change

    gathering = {
        "waiting_for": ["NODE_2", "NODE_3"],
        "more": {"received": ["NODE_1"]},
    }
    told: dict[str, dict[str, Any]] = {
        "loading": {"phase": "LOADING"},
        "no data": {"phase": "NO_DATA", "error": "there is no table.csv; put it into FLNET_DATASETS_PATH"},
        "fetching": {"phase": "FETCHING"},
        "training": {"phase": "TRAINING", "progress": {"done": 3, "total": 8}, "rounds_left": 4},
        "gathering": {"phase": "GATHERING", **gathering},
        "averaging": {"phase": "AVERAGING"},
        "measuring": {"phase": "MEASURING"},
        "exchanging": {"phase": "EXCHANGING"},
        "sits out": {"phase": "GATHERING", "more": {"sits_out": "the schedule says so until 22:00"}},
        "paused": {"phase": "IDLE", "paused": True},
        "failed": {
            "phase": "IDLE",
            "error": "the training failed: ValueError: no",
            "outcome": "round 3 was given up",
        },
    }
    return [Asked(name, "/", before=become(**fields)) for name, fields in told.items()]


async def phases() -> Site:
    """What a round goes through, and what stands in its way."""
    node = FakeNode()
    del node.jobs["MNIST_3_7"]
    return client_of(node), _phases(node.jobs["MNIST"])


async def goals() -> Site:
    """Series with goals, and schedules."""
    node = FakeNode()
    del node.jobs["MNIST_3_7"]
    job = node.jobs["MNIST"]
    goal = {"by": "n0", "first_round": 0, "rounds": 30, "round": 4, "done": 3, "accuracy": 0.8125, "nodes": 4}
    goal |= {"best": 0.825, "stale": 1, "words": "x"}
    untils = (
        "accuracy>=0.9, within 600.0",
        "every accuracy>=0.9, no-gain 5 0.001",
        "own accuracy>=0.98",
        "mlfedavg 0.0",
        "mlfedavg 0.0 cumulative",
    )
    asked = [
        Asked(
            f"{state} {until}",
            "/",
            before=sets(job, "goal", {**goal, "until": until, "state": state}),
        )
        for until in untils
        for state in ("open", "reached", "given_up")
    ]
    schedule = {"when": "every 6h, new 100", "by_person": True, "new_examples": 3, "unwilling": ""}
    schedules: dict[str, dict[str, Any]] = {
        "next": {"next_seconds": 3600, "next_words": text("{time} after the last round", "6h")},
        "waits": {"next_seconds": None, "next_words": "100 new examples, of which there are 3"},
        "unwilling": {
            "next_seconds": None,
            "next_words": "",
            "unwilling": "it is outside 22:00-06:00",
            "by_person": False,
        },
    }
    return client_of(node), [
        *asked,
        *(
            Asked(name, "/", before=sets(job, "schedule", {**schedule, **more}))
            for name, more in schedules.items()
        ),
    ]


async def versions() -> Site:
    """A node without common rounds."""
    node = FakeNode()
    row = {"peer": "b", "version": 7, "merged": 6, "into": 9, "at": 0.0, "newer": True, "reachable": False}
    none = {
        "peer": "c",
        "version": None,
        "merged": None,
        "into": None,
        "at": None,
        "newer": False,
        "reachable": True,
    }
    node.jobs["MNIST"].more = {"versions": {"own": 9, "peers": [row, none]}}
    node.jobs["MNIST_3_7"].more = {"versions": {"own": 0, "peers": []}}
    return client_of(node), [Asked("overview", "/")]


async def not_ready() -> Site:
    """A node that has just been started."""
    node = FakeNode()
    node.reasons = ["MNIST is still loading its data"]
    return client_of(node), [Asked("overview", "/")]


async def models() -> Site:
    """Models that are kept, and what is done with them."""
    node = with_two_models()
    here = "/view/models/MNIST"
    return client_of(node), [
        Asked("list", here),
        Asked("compared", f"{here}?one={NEW}&other={OLD}"),
        Asked("compared with nothing", f"{here}?one={NEW}&other={'ef' * 32}"),
        Asked("going back", f"{here}?back={OLD}"),
        Asked("pinned", here, {"do": "pin", "digest": OLD}),
        Asked("unpinned", here, {"do": "unpin", "digest": OLD}),
        Asked("restored", here, {"do": "restore", "digest": OLD}),
        Asked("no such order", here, {"do": "burn", "digest": OLD}),
        Asked("rolled back", here, before=lambda: node.more["MNIST"].update(rolled_back=True)),
    ]


async def predictions() -> Site:
    """What is asked of a model, and what it answers."""
    node = with_two_models()
    here, rows = "/view/predict/MNIST", {"probabilities": [[0.1, 0.7, 0.2]] * 6, "predicted": ["1"] * 6}
    coarse = {"space": "odd or even", "classes": ["even", "odd"], "estimated": True}
    local = {"answered": ["local"], "errors": [0.0125], "limit": 0.0412}
    both = {"answered": ["local", "global"] * 3, "errors": [0.01, 0.5] * 3, "limit": 0.0412}
    answer = dict(node.answer)

    def answers(**more: Any) -> Callable[[], None]:
        return lambda: node.answer.update({**answer, **more})  # type: ignore[attr-defined]

    def takes(inputs: Any) -> Callable[[], None]:
        return lambda: node.more["MNIST"].update(inputs=inputs)

    def fails(error: Exception | None) -> Callable[[], None]:
        return lambda: setattr(node, "failure", error)

    picture = multipart(digest=OLD.encode(), file=PNG)
    single = {**coarse, "probabilities": [[0.3, 0.7]], "predicted": ["odd"]}
    many = {**coarse, "probabilities": [[0.3, 0.7]] * 6, "predicted": ["even"] * 6}
    none = {**coarse, "probabilities": [], "predicted": []}
    return client_of(node), [
        Asked("drawing", here),
        Asked("answer", here, body=picture),
        Asked("note", here, body=picture, before=answers(note="This is no diagnosis.")),
        Asked("local model", here, body=picture, before=answers(choice=local)),
        Asked(
            "common model",
            here,
            body=picture,
            before=answers(choice={**local, "answered": ["global"], "errors": []}),
        ),
        Asked("own labels", here, body=picture, before=answers(coarse=single)),
        Asked("no own labels yet", here, body=picture, before=answers(coarse=none)),
        Asked("colour picture", here, before=takes({**DIGITS, "shape": [32, 32, 3]})),
        Asked("table", here, before=takes(TABLE)),
        Asked("empty column", here, {"column-0": "41", "column-1": "1.8", "column-2": ""}),
        Asked("rows", here, body=multipart(rows=b"1,2,3\n" * 6), before=answers(**rows, choice=both)),
        Asked(
            "rows in own labels", here, body=multipart(rows=b"1,2,3\n" * 6), before=answers(**rows, coarse=many)
        ),
        Asked("a broken row", here, body=multipart(rows=b"1,2\n")),
        Asked(
            "refused",
            here,
            {"column-0": "1", "column-1": "2", "column-2": "3"},
            before=fails(InputRefused("too odd")),
        ),
        Asked("not offered", "/view/predict/MNIST_3_7", before=fails(None)),
    ]


async def data() -> Site:
    """What data a node works on."""
    node = ViewNode()
    counts = {"test": [40, 10], "train": [300, 150], "validation": [0, 0]}
    told = {"source": "digits", "rows": {"train": 450, "validation": 0, "test": 50}, "classes": ["3", "7"]}
    node.more["MNIST"] = {"data": told, "counts": counts, "checksum": "ab" * 32}
    node.jobs["MNIST_3_7"].phase = "NO_DATA"
    node.jobs["MNIST_3_7"].error = "there is no table.csv; put it into FLNET_DATASETS_PATH"
    return client_of(node), [Asked("data", "/view/data"), Asked("from afar", "/view/data", far=True)]


async def _dealt(shard: str, partition: str) -> Any:
    return client_of(ViewNode(), load_settings({"data_shard": shard, "data_partition": partition}, {}))


async def dealt_by_labels() -> Site:
    """A part of a data set."""
    return await _dealt("2/10", "dirichlet:0.3"), [Asked("data", "/view/data")]


async def dealt_by_classes() -> Site:
    """Likewise."""
    return await _dealt("2/10", "pathological:2"), [Asked("data", "/view/data")]


async def dealt_by_size() -> Site:
    """Likewise."""
    return await _dealt("2/10", "power:1"), [Asked("data", "/view/data")]


async def dealt_in_groups() -> Site:
    """Likewise."""
    return await _dealt("2/10", "groups"), [Asked("data", "/view/data")]


async def findings() -> Site:
    """What a model shows on the own rows."""
    node = FakeNode()

    def finds(kind: str, told: Any) -> Callable[[], None]:
        return lambda: node.studies.found.update({kind: told})

    labels, waiting = "/view/labels/MNIST", {**ESTIMATE, "matrix": None, "deviation": None, "waiting": WAITING}
    return client_of(node), [
        Asked("nothing", labels),
        Asked("known", labels, before=finds("labels", KNOWN)),
        Asked("estimated", labels, before=finds("labels", ESTIMATE)),
        Asked("pooled", labels, before=finds("labels", {**ESTIMATE, "pooled": True})),
        Asked("waiting", labels, before=finds("labels", waiting)),
        Asked("groups", "/view/groups/MNIST", before=finds("groups", GROUPS)),
        Asked("from afar", "/view/groups/MNIST", far=True),
    ]


async def keys() -> Site:
    """Keys of an open mesh."""
    node = KeyNode()
    node.meet("b")
    node.meet("c", key="")
    node.meet("d", state="dead")
    here = "/view/keys"
    return client_of(node), [
        Asked("keys", here),
        Asked("asked to forget", f"{here}?forget=d"),
        Asked("asked to forget nobody", f"{here}?forget=x"),
        Asked("forgotten", here, {"do": "forget", "peer": "d"}),
        Asked("no such order", here, {"do": "burn", "peer": "d"}),
        Asked("overview", "/"),
    ]


async def keyed() -> Site:
    """A node of a keyed mesh."""
    node = KeyNode()
    node.meet("b")
    settings = load_settings({"mesh_key": "correct horse battery staple"}, {})
    return client_of(node, settings), [Asked("overview", "/"), Asked("keys", "/view/keys")]


async def pinned() -> Site:
    """A node of a pinned mesh: who waits, and what people decide."""
    node = PinnedNode()
    with patch("time.time", return_value=1_700_000_000.0):
        node.trust.met(STRANGER, "stranger", "192.0.2.7:4000")
    await node.trust.accept(FRIEND)
    await node.trust.reject(THIRD)
    node.meet(FRIEND, "friend")
    settings, here = load_settings({"mesh_mode": "pinned"}, {}), "/view/keys"
    mark = node.trust.pending()[0]["fingerprint"]
    return client_of(node, settings), [
        Asked("overview", "/"),
        Asked("overview from afar", "/", far=True),
        Asked("keys", here),
        Asked("another page", "/view/models/MNIST"),
        Asked("not compared", here, {"do": "accept", "key": mark}),
        Asked("asked to accept", f"{here}?accept={mark}"),
        Asked("no key", here, {"do": "accept", "key": "x", "compared": "yes"}),
        Asked("accepted", here, {"do": "accept", "key": mark, "compared": "yes", "introducer": "yes"}),
        Asked("asked to distrust", f"{here}?distrust={mark}"),
        Asked("forgotten", here, {"do": "forget", "key": mark}),
    ]


async def signing_in() -> Site:
    """A reader on another machine."""
    return client_of(FakeNode(), SETTINGS, OperatorToken(TOKEN)), [
        Asked("form", "/sign-in", far=True),
        Asked("reading", "/", far=True),
        Asked("settings need it", "/view/settings", far=True),
        Asked("wrong token", "/sign-in", {"token": "0123456789abcdefghiX"}, far=True),
        Asked("from this machine", "/sign-in"),
    ]


async def settings() -> Site:
    """Settings from all their sources."""
    given = load_settings(
        {"node_port": 4010, "trainers": "MNIST,CIFAR10"}, {"FLNET_DATASETS_PATH": "/data/<b>"}, {"seed": 7}
    )
    return client_of(FakeNode(), given), [Asked("settings", "/view/settings")]


SITES: Sequence[Callable[[], Awaitable[Site]]] = (
    fresh,
    alone,
    in_rounds,
    phases,
    goals,
    versions,
    not_ready,
    models,
    predictions,
    data,
    dealt_by_labels,
    dealt_by_classes,
    dealt_by_size,
    dealt_in_groups,
    findings,
    keys,
    keyed,
    pinned,
    signing_in,
    settings,
)
