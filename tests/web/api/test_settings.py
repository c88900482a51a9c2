"""GET /settings: every setting with its source, secrets masked, and only for callers on the same machine."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import Field
from quart import Quart

from flnet.settings import PREFIX, Settings, load_settings
from flnet.web.api.settings import settings_of
from flnet.web.app import create_app
from tests.web.conftest import Client
from tests.web.fake_node import FakeNode


async def asked(settings: Settings) -> dict[str, dict[str, Any]]:
    answer = await create_app(FakeNode(), settings).test_client().get("/settings")
    assert answer.status_code == 200
    return {each["name"]: each for each in await answer.get_json()}


async def test_every_setting_is_told_with_its_source() -> None:
    given = load_settings(
        {"node_port": 4010}, {"FLNET_TRAINERS": "MNIST,CIFAR10", "FLNET_DATA_SHARD": "2/10"}, {"state_path": "/s"}
    )
    told = await asked(given)
    assert list(told) == list(Settings.model_fields)
    keys = ("value", "source", "default")
    assert [tuple(told[name][key] for key in keys) for name in ("node_port", "trainers", "data_shard")] == [
        (4010, "option", 4000),
        (["MNIST", "CIFAR10"], "variable", []),
        ("2/10", "variable", "1/1"),
    ]
    assert [tuple(told[name][key] for key in keys) for name in ("state_path", "prune_unresponsive_nodes")] == [
        ("/s", "file", None),
        (False, "default", False),
    ]
    assert told["seed"]["variable"] == f"{PREFIX}SEED"
    assert told["seed"]["description"] == Settings.model_fields["seed"].description


async def test_what_is_told_gives_the_same_settings_again() -> None:
    given = load_settings({"node_port": 4010, "bootstrap_pairs": "127.0.0.1:1"}, {"FLNET_DATA_SHARD": "2/10"})
    told = await asked(given)
    again = load_settings({name: each["value"] for name, each in told.items()}, {})
    assert again.model_dump() == given.model_dump()


class Guarded(Settings):
    mesh_token: str | None = Field(default=None, description="A secret.")
    api_key: str = Field(default="built in", description="Another.")
    use_password: bool = Field(default=False, description="No secret: yes or no.")


@pytest.mark.parametrize(("given", "shown"), [(None, None), ("swordfish", "***")])
def test_secrets_are_masked(given: str | None, shown: str | None) -> None:
    told = {each.name: each for each in settings_of(Guarded(mesh_token=given))}
    assert (told["mesh_token"].value, told["mesh_token"].default) == (shown, None)
    assert (told["api_key"].value, told["api_key"].default) == ("***", "***")
    assert told["use_password"].value is False
    assert "swordfish" not in str(told)


@pytest.mark.parametrize(
    ("caller", "status"), [("127.0.0.1", 200), ("::1", 200), ("::ffff:127.0.0.1", 200), ("10.0.0.7", 401)]
)
async def test_callers_on_other_machines_sign_in_first(app: Quart, caller: str, status: int) -> None:
    client: Client = app.test_client()
    answer = await client.get("/settings", scope_base={"client": (caller, 1)})
    assert answer.status_code == status
    if status == 401:
        assert "from the machine that it runs on" in (await answer.get_json())["message"]


async def test_a_change_is_for_the_next_start(app: Quart) -> None:
    client: Client = app.test_client()
    answer = await client.patch("/settings", json={"settings": {"wire": "int8", "keep_models": 7}})
    assert answer.status_code == 200
    told = {each["name"]: each for each in await (await client.get("/settings")).get_json()}
    assert [(told[name]["value"], told[name]["next"]) for name in ("wire", "keep_models")] == [
        ("safetensors", "int8"),
        (Settings().keep_models, 7),
    ]
    assert [told[name]["can_change"] for name in ("wire", "mesh_key", "node_port")] == [True, False, False]
    await client.patch("/settings", json={"settings": {"wire": None}})
    told = {each["name"]: each for each in await (await client.get("/settings")).get_json()}
    assert told["wire"]["next"] == "safetensors"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"settings": {"mesh_key": "a" * 20}}, "mesh_key cannot be changed"),
        ({"settings": {"wire": "smoke"}}, "Input should be"),
        ({"settings": {}}, "settings"),
        ({"wire": "int8"}, "settings"),
        ({"settings": {"x" * 61: 1}}, "settings"),
    ],
)
async def test_a_wrong_change_is_refused(app: Quart, asked: dict[str, Any], words: str) -> None:
    answer = await app.test_client().patch("/settings", json=asked)
    assert answer.status_code == 422 and words in (await answer.get_json())["message"]


async def test_callers_on_other_machines_change_nothing(app: Quart) -> None:
    client: Client = app.test_client()
    answer = await client.patch(
        "/settings", json={"settings": {"wire": "int8"}}, scope_base={"client": ("10.0.0.7", 1)}
    )
    assert answer.status_code == 401
    told = {each["name"]: each for each in await (await client.get("/settings")).get_json()}
    assert told["wire"]["next"] == "safetensors"
