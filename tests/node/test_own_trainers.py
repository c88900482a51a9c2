"""Trainers that are made or taken over while nodes run; what other nodes show is data that may be anything."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from flnet.cli.commands import cli
from flnet.compute.loader import find_trainers
from flnet.datasets.dataset_import import Upload
from flnet.datasets.guess import Choices, TableGuess, stated
from flnet.datasets.no_code import OwnImages, OwnTable, checked_own, read_own
from flnet.errors import ImportRefused, InvalidMessage
from flnet.node import own_trainers
from flnet.node.own_trainers import ANSWER_BYTES, MOST_OFFERS, Draft, Offer, read_offers
from flnet.node.runtime import NodeRuntime
from flnet.params.params import TrainerId
from flnet.settings import Settings
from flnet.trainer import Trainer
from flnet.web.app import create_app
from tests.compute.inline_queue import InlineQueue
from tests.datasets.own_files import class_folders, csv_file, two_clouds
from tests.node.mesh import Linear, Mesh, until
from tests.web.conftest import served

CLOUDS = TrainerId("CLOUDS")
TABLE = {"kind": "table", "target": "y", "classes": ["no", "yes"], "label": "Clouds"}


class AnyTrainer(Mapping[str, Trainer]):
    """A trainer for every name, as soon as somebody asks for it."""

    def __init__(self, target: float) -> None:
        self.target, self.made = target, dict[str, Trainer]()

    def __contains__(self, name: object) -> bool:
        return True

    def __getitem__(self, name: str) -> Trainer:
        return self.made.setdefault(name, Linear(self.target))

    def __iter__(self) -> Iterator[str]:
        return iter(self.made)

    def __len__(self) -> int:
        return len(self.made)


@pytest.fixture(params=[{}, {"mesh_key": "a secret that both know, long enough"}], ids=["open", "keyed"])
async def mesh(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Mesh]:
    """Two nodes that know each other; b has no folder of data sets."""
    made = Mesh()
    for name, others, where in (("a", (), {"datasets_path": tmp_path / "data"}), ("b", ("a",), {})):
        pool = InlineQueue(AnyTrainer(1.0 if name == "a" else 2.0))
        settings = {"state_path": tmp_path / name, **where, **request.param}
        await made.add(name, None, others, pool=pool, **settings)
    await made.full()
    yield made
    await made.stop()


def filled(upload: Upload, *files: Path, below: Path | None = None) -> Upload:
    for file in files:
        upload.begin(file.name if below is None else file.relative_to(below).as_posix())
        upload.write(file.read_bytes())
    return upload


def rows(folder: Path, name: str = "clouds.csv", count: int = 60) -> Path:
    return csv_file(folder / name, ["a", "b", "y"], two_clouds(count))


async def looked_at(node: NodeRuntime, *files: Path, below: Path | None = None) -> Draft:
    return await node.own_trainers.look(filled(node.own_trainers.begin(), *files, below=below))


async def test_a_trainer_is_made_taken_over_and_trained_by_both(mesh: Mesh, tmp_path: Path) -> None:
    a, b = mesh.nodes["a"], mesh.nodes["b"]
    draft = await looked_at(a, rows(tmp_path))
    assert isinstance(draft.guess, TableGuess)
    assert (draft.name, draft.file, draft.guess.target.name) == ("CLOUDS", "clouds.csv", "y")
    assert await a.own_trainers.make(draft.key, "CLOUDS", Choices(label="Clouds"), offered=True) == CLOUDS
    await until(lambda: a.job(CLOUDS).phase == "IDLE")
    assert (tmp_path / "data" / "clouds.csv").is_file()
    assert [item.text for item in a.feed.recent() if item.kind == "trainer_added"] == [
        "CLOUDS was added to this node"
    ]

    (offer,) = await b.own_trainers.offers()
    assert (offer.peer, offer.name, offer.own.label) == ("a", "CLOUDS", "Clouds")
    assert "data" not in offer.lines
    other = csv_file(
        tmp_path / "mine.csv", ["y", "a", "b"], [[row[2], row[0], row[1]] for row in two_clouds(40, 1)]
    )
    other.write_text(other.read_text().replace(",", ";"))
    upload = filled(b.own_trainers.begin(), other)
    assert await b.own_trainers.take_over("a", "CLOUDS", offer.digest, upload) == CLOUDS
    own = read_own(tmp_path / "b" / "own-trainers" / "CLOUDS.toml")
    assert isinstance(own, OwnTable)
    assert (own.separator, own.offered, own.data) == (";", False, str(tmp_path / "b" / "own-data" / "clouds.csv"))
    await until(lambda: b.job(CLOUDS).phase == "IDLE")
    assert await b.own_trainers.offers() == []
    assert CLOUDS in {file.id for file in find_trainers(Settings(state_path=tmp_path / "b", trainers_path=None))}

    await b.receive("/training/trigger", b'{"trainerId": "CLOUDS"}', "application/json", "127.0.0.1")
    await until(lambda: all(n.job(CLOUDS).current_round == 0 and n.job(CLOUDS).phase == "IDLE" for n in (a, b)))
    assert a.job(CLOUDS).digest == b.job(CLOUDS).digest is not None
    assert [len(n.history(CLOUDS)[0]["contributors"]) for n in (a, b)] == [2, 2]


async def test_a_description_is_taken_over_without_data_and_as_it_was_shown(mesh: Mesh, tmp_path: Path) -> None:
    a, b = mesh.nodes["a"], mesh.nodes["b"]
    draft = await looked_at(a, *sorted(class_folders(tmp_path / "pets", each=5).rglob("*.*")), below=tmp_path)
    assert draft.name == "PETS"
    await a.own_trainers.make(draft.key, "PETS", Choices(), offered=True)
    (offer,) = await b.own_trainers.offers()
    assert isinstance(offer.own, OwnImages)
    for peer, name, digest in (("a", "PETS", "0" * 64), ("c", "PETS", offer.digest), ("a", "DOGS", offer.digest)):
        with pytest.raises(ImportRefused, match="does not show this trainer any more; look again"):
            await b.own_trainers.take_over(peer, name, digest, None)
    await b.own_trainers.take_over("a", "PETS", offer.digest, None)
    with pytest.raises(ImportRefused, match="there is a trainer PETS already"):
        await b.own_trainers.take_over("a", "PETS", offer.digest, None)
    assert sorted(path.name for path in (tmp_path / "data" / "pets").iterdir()) == ["cat", "dog"]


async def test_a_trainer_is_taken_over_from_another_terminal(mesh: Mesh, tmp_path: Path) -> None:
    a, b = mesh.nodes["a"], mesh.nodes["b"]
    draft = await looked_at(a, rows(tmp_path))
    await a.own_trainers.make(draft.key, "CLOUDS", Choices(label="Clouds \x1b[2J \x9b2J \u202e"), offered=True)
    (offer,) = await b.own_trainers.offers()
    async with served(create_app(b, Settings(state_path=tmp_path / "b", trainers=("MNIST_3_7",)))) as port:

        async def flnet(*words: str) -> Result:
            return await asyncio.to_thread(
                CliRunner().invoke, cli, ("take-over", *words, "--node", f"127.0.0.1:{port}")
            )

        shown = await flnet()
        assert shown.exit_code == 0, shown.output
        assert "CLOUDS of a:" in shown.stdout
        assert '    target = "y"' in shown.stdout
        assert offer.digest[:10] in shown.stdout
        assert not set("\x1b\x9b\u202e") & set(shown.stdout)
        (listed,) = json.loads((await flnet("--json")).stdout)
        assert (listed["peer"], listed["id"], listed["digest"]) == ("a", "CLOUDS", offer.digest)

        other = csv_file(tmp_path / "mine.csv", ["b", "a"], [row[:2] for row in two_clouds(40, 1)])
        refusals = [
            (("DOGS",), 1, "no node offers this trainer DOGS; offered is CLOUDS of a"),
            (("CLOUDS", "--from", "c"), 1, "no node offers this trainer CLOUDS"),
            (("CLOUDS", "--digest", "0" * 10), 1, "no node offers this trainer CLOUDS"),
            (("CLOUDS", str(other)), 1, "missing y; found b, a"),
            (("CLOUDS", str(tmp_path / "none.csv")), 2, "does not exist"),
            (("--from", "a"), 2, "--from and --digest go with NAME"),
        ]
        for words, code, why in refusals:
            refused = await flnet(*words)
            assert (refused.exit_code, why in refused.output.replace("\n", " ")) == (code, True), refused.output
        assert set(b.core.jobs) == {"MNIST_3_7"}

        mine = rows(tmp_path, "mine.csv", 40)
        taken = await flnet("CLOUDS", str(mine), "--from", "a", "--digest", offer.digest[:10])
        assert taken.exit_code == 0, taken.output
        assert "CLOUDS was taken over from a." in taken.stdout
        assert not set("\x1b\x9b\u202e") & set(taken.stdout)
        assert "add it there before the next start" in taken.stdout
        await until(lambda: b.job(CLOUDS).phase == "IDLE")
        assert (tmp_path / "b" / "own-data" / "clouds.csv").read_bytes() == mine.read_bytes()
        assert "no other node offers a trainer" in (await flnet()).stdout


async def test_offers_that_differ_are_not_taken_over_by_their_name_alone(tmp_path: Path) -> None:
    made = Mesh()
    try:
        for name, others in (("a", ()), ("b", ("a",)), ("c", ("a",))):
            pool = InlineQueue(AnyTrainer(1.0))
            await made.add(name, None, others, pool=pool, state_path=tmp_path / name)
        await made.full()
        for name, label in (("a", "One"), ("b", "Other")):
            node = made.nodes[name]
            draft = await looked_at(node, rows(tmp_path))
            await node.own_trainers.make(draft.key, "CLOUDS", Choices(label=label), offered=True)
        c = made.nodes["c"]
        async with served(create_app(c, Settings(state_path=tmp_path / "c"))) as port:
            words = ("take-over", "CLOUDS", "--node", f"127.0.0.1:{port}")
            refused = await asyncio.to_thread(CliRunner().invoke, cli, words)
            assert refused.exit_code == 1
            assert "a, b offer trainers CLOUDS that differ: choose one with --from" in refused.output
            taken = await asyncio.to_thread(CliRunner().invoke, cli, (*words, "--from", "b", "--json"))
        assert json.loads(taken.stdout) == {"trainer_id": "CLOUDS", "must_be_named": False}
        own = read_own(tmp_path / "c" / "own-trainers" / "CLOUDS.toml")
        assert own.label == "Other"
    finally:
        await made.stop()


async def test_what_is_not_offered_is_shown_to_nobody(mesh: Mesh, tmp_path: Path) -> None:
    a, b = mesh.nodes["a"], mesh.nodes["b"]
    draft = await looked_at(a, rows(tmp_path))
    await a.own_trainers.make(draft.key, "CLOUDS", Choices(), offered=False)
    assert await a.own_trainers.offered() == []
    assert await b.own_trainers.offers() == []


async def test_what_cannot_be_made_leaves_nothing_and_can_be_corrected(mesh: Mesh, tmp_path: Path) -> None:
    a = mesh.nodes["a"]
    for name, words in (("t.docx", "is of no known kind"), ("t.csv", "is empty")):
        (tmp_path / name).write_text("")
        with pytest.raises(ImportRefused, match=words):
            await looked_at(a, tmp_path / name)
    assert list((tmp_path / "data").iterdir()) == []
    draft = await looked_at(a, rows(tmp_path, count=4))
    refusals = [
        ("MNIST_3_7", Choices(), ImportRefused, "there is a trainer MNIST_3_7 already"),
        ("../UP", Choices(), ImportRefused, "is no name of a trainer"),
        ("FEW", Choices("z"), InvalidMessage, "there is no column 'z'"),
        ("FEW", Choices(), ImportRefused, "too few rows in clouds.csv"),
    ]
    for name, choices, error, words in refusals:
        with pytest.raises(error, match=words):
            await a.own_trainers.make(draft.key, name, choices, offered=True)
    assert a.own_trainers.draft(draft.key) is draft
    assert set(a.core.jobs) == {"MNIST_3_7"}
    assert not list((tmp_path / "a").glob("own-trainers/*"))


async def test_only_the_newest_drafts_are_kept(mesh: Mesh, tmp_path: Path) -> None:
    a = mesh.nodes["a"]
    drafts = [await looked_at(a, rows(tmp_path)) for _ in range(5)]
    with pytest.raises(ImportRefused, match="choose them again"):
        a.own_trainers.draft(drafts[0].key)
    assert [draft.place.exists() for draft in drafts] == [False, True, True, True, True]
    await a.own_trainers.close()
    assert not any(draft.place.exists() for draft in drafts)


def answer(*entries: Any) -> bytes:
    return json.dumps({"trainers": entries}).encode()


def entry(name: Any = "CLOUDS", **more: Any) -> dict[str, Any]:
    return {"id": name, "description": {**TABLE, **more}}


def test_sound_descriptions_of_a_peer_are_read() -> None:
    (offer,) = read_offers("a", answer(entry(), entry(label="the same id again")))
    assert offer == Offer("a", "CLOUDS", offer.own, offer.digest)
    assert stated(offer.own) == TABLE
    assert offer.digest != read_offers("a", answer(entry(label="other")))[0].digest
    assert len(read_offers("a", answer(*(entry(f"T{n}") for n in range(50))))) == MOST_OFFERS


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"\xff", b"null", b"[]", b'{"trainers": 7}', b"[" * 100_000, answer(None, [], {}, {"id": "X"})),
        *(answer(entry(name)) for name in (None, 7, "", "../X", "A B", "x" * 65)),
        answer(entry(data="/etc/passwd")),
        answer(entry(offered=True)),
        answer(entry(common_test="/etc/passwd")),
        answer(entry(kind="vertical", id="p")),
        answer(entry(kind="code")),
        answer(entry(target=["y"])),
        answer(entry(code="import os")),
        answer(entry(model="mlp", hidden=[4096] * 8)),
        answer(entry(label="x" * 101)),
        answer(entry(ignore=[f"column {n}" * 10 for n in range(1000)])),
        answer(
            {
                "id": "P",
                "description": {"kind": "images", "model": "linear", "size": 512, "classes": list("abcdefgh")},
            }
        ),
    ],
)
def test_other_descriptions_are_left_out(body: bytes) -> None:
    assert not read_offers("a", body)


def test_a_description_that_is_too_long_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[object] = []
    monkeypatch.setattr(own_trainers, "checked_own", checked.append)
    body = answer(entry(features=[f"f{n}" for n in range(20_000)]))
    assert len(body) <= ANSWER_BYTES
    assert not read_offers("a", body)
    assert checked == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(name=JSON, key=st.sampled_from([*OwnTable.model_fields, *OwnImages.model_fields]), value=JSON)
def test_no_answer_of_a_peer_does_more_than_be_left_out(name: Any, key: str, value: Any) -> None:
    for offer in read_offers("a", json.dumps({"trainers": [entry(**{key: value}), entry(name)]}).encode()):
        assert checked_own({**stated(offer.own), "data": offer.own.data}) == offer.own
