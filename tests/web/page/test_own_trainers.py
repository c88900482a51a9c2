"""The pages on which data become trainers: forms, what they refuse, and what strangers see of them."""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from flnet.datasets.guess import Choices
from flnet.errors import InvalidMessage
from flnet.node.build import assemble
from flnet.node.own_trainers import Draft, Offer, read_offers
from flnet.node.runtime import NodeRuntime
from flnet.protocol.messages import Peer
from flnet.settings import Settings
from flnet.store.memory import MemoryStore
from flnet.web.app import create_app
from flnet.web.page.own_trainers import choices_of, offer_card
from flnet.wire.memory import MemoryNetwork
from tests.compute.inline_queue import InlineQueue
from tests.datasets.own_files import class_folders, csv_file, two_clouds
from tests.node.mesh import until
from tests.node.test_own_trainers import AnyTrainer, answer, entry
from tests.web.conftest import Client
from tests.web.view_nodes import EVIL

NEW = "/view/data/new"
FROM_HERE = {"Origin": "http://localhost", "Host": "localhost"}


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[NodeRuntime]:
    me = Peer(id="a", ip="127.0.0.1", port=4000)
    running = assemble(
        Settings(state_path=tmp_path / "state", trainers=("MNIST",)),
        me,
        [],
        pool=InlineQueue(AnyTrainer(1.0)),
        transport=MemoryNetwork(random.Random(0)).transport(me.address),
        store=MemoryStore(),
    )
    await running.start()
    yield running
    await running.stop()


@pytest.fixture
def client(node: NodeRuntime, tmp_path: Path) -> Client:
    return create_app(node, Settings(state_path=tmp_path / "state", trainers=("MNIST",))).test_client()


def form(*files: tuple[str, str, bytes], **fields: str) -> dict[str, Any]:
    """A multipart form as the arguments of a request."""
    parts = [
        f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    for field, name, body in files:
        head = f'--x\r\nContent-Disposition: form-data; name="{field}"; filename="{name}"\r\n\r\n'
        parts.append(head.encode() + body + b"\r\n")
    return {
        "data": b"".join([*parts, b"--x--\r\n"]),
        "headers": {"Content-Type": "multipart/form-data; boundary=x", **FROM_HERE},
    }


def table(tmp_path: Path) -> bytes:
    return csv_file(tmp_path / "rows.csv", ["a", "<b>", "y"], two_clouds(60)).read_bytes()


async def test_a_table_is_looked_at_corrected_and_made_into_a_trainer(
    node: NodeRuntime, client: Client, tmp_path: Path
) -> None:
    looked = await client.post(NEW, **form(("file", "My rows.csv", table(tmp_path))))
    assert looked.status_code == 303
    place = looked.headers["Location"]
    page = await (await client.get(place, headers=FROM_HERE)).get_data(as_text=True)
    assert "My rows.csv has 60 rows and 3 columns" in page
    assert 'value="MY_ROWS"' in page
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert 'name="words-2" value="no,yes"' in page
    wrong = await client.post(place, form={"name": "A B", "target": "y", "label": "Kept"}, headers=FROM_HERE)
    page = await wrong.get_data(as_text=True)
    assert wrong.status_code == 422
    assert "&#39;A B&#39; is no name of a trainer" in page
    assert 'value="Kept"' in page
    assert " checked" not in page
    made = await client.post(
        place,
        form={"name": "ROWS", "target": "y", "use-1": "ignore", "words-2": "no, yes, maybe"},
        headers=FROM_HERE,
    )
    assert made.status_code == 303, await made.get_data(as_text=True)
    first = await (await client.get(made.headers["Location"], headers=FROM_HERE)).get_data(as_text=True)
    assert "ROWS was made. It is loading, and can then be trained." in first
    assert "FLNET_TRAINERS names the trainers of this node: add it there" in first
    await until(lambda: [job.trainer_id for job in node.all_jobs()] == ["ROWS"])
    assert 'classes = ["no", "yes", "maybe"]\nignore = ["<b>"]' in (
        tmp_path / "state" / "own-trainers" / "ROWS.toml"
    ).read_text("utf-8")
    gone = await client.get(place, headers=FROM_HERE)
    assert (gone.status_code, "not waiting any more" in await gone.get_data(as_text=True)) == (422, True)
    shown = await client.get("/trainers/offered", headers=FROM_HERE)
    assert await shown.get_json() == {"trainers": []}


async def test_a_folder_of_pictures_is_looked_at(client: Client, tmp_path: Path) -> None:
    root = class_folders(tmp_path / "pets", each=4)
    files = [
        ("folder", path.relative_to(tmp_path).as_posix(), path.read_bytes()) for path in sorted(root.rglob("*.*"))
    ]
    looked = await client.post(NEW, **form(*files))
    page = await (await client.get(looked.headers["Location"], headers=FROM_HERE)).get_data(as_text=True)
    assert "pets has pictures of 2 classes." in page
    assert re.search(r'name="size"[^>]*value="12"', page)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ((), "no files came"),
        ((("file", "a.docx", b"x"),), "is of no known kind"),
        ((("file", "a.zip", b"no archive"),), "the archive cannot be unpacked"),
        ((("file", "../a.csv", b"a,y\n1,2\n"),), "../a.csv"),
    ],
)
async def test_what_is_no_data_is_told_on_the_page_of_the_data(client: Client, files: Any, words: str) -> None:
    refused = await client.post(NEW, **form(*files))
    assert refused.status_code == 303
    page = await (await client.get(refused.headers["Location"].partition("#")[0], headers=FROM_HERE)).get_data(
        as_text=True
    )
    assert words in page
    assert 'role="alert"' in page


async def test_strangers_bring_nothing_and_see_no_form(client: Client) -> None:
    away = {"scope_base": {"client": ("192.0.2.7", 5000)}}
    for path in (NEW, "/view/data/offers", f"{NEW}/x"):
        refused = await client.post(path, **form(("file", "a.csv", b"a,y\n")), **away)
        assert refused.status_code in (401, 403), path
    page = await (await client.get("/view/data", **away)).get_data(as_text=True)
    assert "/view/data/new" not in page
    assert (await client.get("/trainers/offered", **away)).status_code == 200  # an open mesh: everybody reads


async def test_a_trainer_that_nobody_shows_cannot_be_taken_over(client: Client) -> None:
    fields = {"peer": "b", "name": "CLOUDS", "digest": "0" * 64}
    refused = await client.post("/view/data/offers", **form(**fields))
    page = await (await client.get(refused.headers["Location"].partition("#")[0], headers=FROM_HERE)).get_data(
        as_text=True
    )
    assert "b does not show this trainer any more; look again" in page


async def test_what_a_peer_shows_is_escaped(
    node: NodeRuntime, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    (offer,) = read_offers("b", answer(entry(label=EVIL, ignore=["<i>"])))

    async def offers() -> list[Offer]:
        return [offer]

    monkeypatch.setattr(node.own_trainers, "offers", offers)
    page = await (await client.get("/view/data", headers=FROM_HERE)).get_data(as_text=True)
    assert EVIL not in page
    assert "<i>" not in page
    assert f'name="digest" value="{offer.digest}"' in page
    assert 'kind = "table"' in offer_card(offer).lines
    assert "data" not in offer_card(offer).lines


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"use-0": "target"}, "use-0 is 'target'; expected one of number, words, ignore, id"),
        ({"missing": "guess"}, "missing is 'guess'; expected one of"),
        ({"scaling": ""}, "scaling is ''; expected one of own, common"),
        ({"size": "-1"}, "the size is '-1'; expected a number of pixels"),
    ],
)
async def test_a_form_with_other_values_is_refused(
    node: NodeRuntime, tmp_path: Path, fields: dict[str, str], words: str
) -> None:
    upload = node.own_trainers.begin()
    upload.begin("rows.csv")
    upload.write(table(tmp_path))
    draft: Draft = await node.own_trainers.look(upload)
    assert choices_of(draft, {}) == Choices()
    with pytest.raises(InvalidMessage, match=re.escape(words)):
        choices_of(draft, fields)
