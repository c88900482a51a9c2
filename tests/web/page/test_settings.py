from __future__ import annotations

import re

import pytest
from quart import Quart

from flnet.settings import Settings, load_settings
from flnet.web.app import create_app
from flnet.web.page.settings import words_of
from tests.web.conftest import Client
from tests.web.fake_node import FakeNode
from tests.web.page_reading import FORM, Page, load, post
from tests.web.view_nodes import EVIL

HERE = "/view/settings"
GIVEN = load_settings(
    {"node_port": 4010, "trainers": "MNIST,CIFAR10"}, {"FLNET_DATASETS_PATH": f"/data/{EVIL}"}, {"seed": 7}
)


@pytest.fixture
def app(node: FakeNode) -> Quart:
    return create_app(node, GIVEN)


async def test_every_setting_has_its_value_source_and_default(client: Client) -> None:
    page = await load(client, HERE)
    text = page.text.replace("_ ", "_")  # where a long name may be broken
    assert all(f"FLNET_{name.upper()} " in text for name in Settings.model_fields)
    assert "FLNET_NODE_PORT 4010 option on the command line instead of 4000 " in text
    assert re.search("FLNET_TRAINERS MNIST, CIFAR10 option on the command line (?!instead)", text)
    assert re.search("FLNET_PRUNE_UNRESPONSIVE_NODES false default (?!instead)", text)
    assert re.search("FLNET_NODE_IP — default (?!instead)", text)


def test_values_are_shown_as_people_write_them() -> None:
    assert [words_of(value) for value in (None, "", [], True, 0, ["a", "b"])] == [
        "—",
        "—",
        "—",
        "true",
        "0",
        "a, b",
    ]


async def test_the_view_shows_them_and_what_is_in_them_is_text(client: Client) -> None:
    page = await load(client, HERE)
    text = page.text.replace("_ ", "_")  # where a long name may be broken
    assert f"FLNET_DATASETS_PATH /data/{EVIL} environment variable Folder" in text
    assert "FLNET_SEED 7 flnet.toml instead of 0 Seed of splits" in text
    assert f"4 of {len(Settings.model_fields)} settings were given." in page.text
    assert len(page.all("img")) == 1
    assert page.inline == ""


async def test_callers_on_other_machines_sign_in_first(client: Client) -> None:
    answer = await client.get(HERE, scope_base={"client": ("192.168.1.9", 5)})
    assert answer.status_code == 401
    page = Page(await answer.get_data(as_text=True))
    assert "from the machine that it runs on" in page.text
    assert "FLNET_" not in page.text


def link_to(page: Page, name: str) -> bool:
    return any((link.get("href") or "").startswith(f"{HERE}?change={name}#") for link in page.all("a"))


async def test_a_person_changes_a_setting_and_sees_what_the_next_start_has(client: Client) -> None:
    asked = await load(client, f"{HERE}?change=wire")
    assert "Change FLNET_WIRE" in asked.text
    assert "safetensors float16 int8 json" in asked.text
    status, place = await post(client, HERE, name="wire", value="float16", do="change")
    page = await load(client, place)
    assert status == 303
    assert "wire is changed. The change takes effect at the next start of the node." in page.text
    assert "FLNET_WIRE : float16 instead of safetensors" in page.text
    await post(client, HERE, name="wire", value="float16", do="default")
    assert "instead of safetensors" not in (await load(client, HERE)).text


async def test_only_what_the_page_may_change_has_a_link_and_a_form(client: Client) -> None:
    page = await load(client, HERE)
    assert [link_to(page, name) for name in ("wire", "keep_models", "seed", "trainers", "mesh_key")] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert "Change FLNET" not in (await load(client, f"{HERE}?change=mesh_key")).text
    _, place = await post(client, HERE, name="mesh_key", value="a" * 20, do="change")
    assert "mesh_key cannot be changed on the page" in (await load(client, place)).text


async def test_a_wrong_value_is_told(client: Client) -> None:
    _, place = await post(client, HERE, name="local_epochs", value=EVIL, do="change")
    page = await load(client, place)
    assert "local_epochs (changed on the page)=" in page.text and "valid integer" in page.text
    assert len(page.all("img")) == 1


async def test_a_person_who_may_only_read_changes_nothing(client: Client) -> None:
    stranger = {"client": ("192.168.1.9", 5)}
    answer = await client.post(HERE, data=b"name=wire&value=int8", headers=FORM, scope_base=stranger)
    assert answer.status_code in (401, 403)
    assert "int8 instead of" not in (await load(client, HERE)).text
