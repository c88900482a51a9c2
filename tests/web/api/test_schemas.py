"""The forms that the description states are those of a real node's answers, with every field that these have."""

from __future__ import annotations

import orjson
import pytest
from pydantic import ValidationError

from flnet.protocol.messages import Trigger
from flnet.rounds.view import JobView
from flnet.web.api.history import RoundView
from flnet.web.api.mesh import InfoView, PeerView
from flnet.web.api.models import ModelView
from flnet.web.api.monitoring import ReadyView
from tests.node.mesh import MNIST_3_7, Mesh, mesh_of


async def run_a_round(mesh: Mesh) -> None:
    """Start one at the first node, and wait for its end everywhere."""
    body = orjson.dumps({"trainerId": MNIST_3_7})
    await mesh.nodes["a"].receive(Trigger.path, body, "application/json", "127.0.0.1")
    await mesh.idle(0)


def as_sent(view: object) -> bytes:
    return orjson.dumps(view, default=JobView.as_json)


async def test_a_node_answers_in_the_forms_that_are_described() -> None:
    async with mesh_of(0.0, 1.0) as mesh:
        node = mesh.nodes["a"]
        untouched = JobView.model_validate_json(as_sent(node.job(MNIST_3_7)))
        assert (untouched.phase, untouched.current_round, untouched.used_hyper) == ("IDLE", -1, None)
        await run_a_round(mesh)
        job = JobView.model_validate_json(as_sent(node.job(MNIST_3_7)))
        assert (job.current_round, job.contributors, job.paused) == (0, 2, False)
        info = InfoView.model_validate_json(as_sent(node.info()))
        assert [one.digest for one in info.jobsInfo] == [job.digest]
        (record,) = [RoundView.model_validate_json(as_sent(one)) for one in node.history(MNIST_3_7)]
        assert (record.contributors, record.digest) == (["a", "b"], job.digest)
        models = [ModelView.model_validate_json(as_sent(one)) for one in await node.models(MNIST_3_7)]
        assert [one.held for one in models][:1] == [True]
        (peer,) = [PeerView.model_validate_json(as_sent(one)) for one in node.peers()]
        assert (peer.id, peer.state) == ("b", "alive")
        assert ReadyView.model_validate_json(as_sent(node.ready())).ready


async def test_a_field_that_is_not_described_would_be_seen() -> None:
    async with mesh_of(0.0) as mesh:
        view = mesh.nodes["a"].job(MNIST_3_7).as_json()
        with pytest.raises(ValidationError, match="new_figure"):
            JobView.model_validate_json(as_sent({**view, "new_figure": 1}))
        with pytest.raises(ValidationError, match="phase"):
            JobView.model_validate_json(as_sent({name: view[name] for name in view if name != "phase"}))
