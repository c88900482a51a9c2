"""A trainer is made of a table while a node runs, shown to another node, taken over there, and trained by both."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.datasets.own_files import csv_file, two_clouds
from tests.processes.harness import Harness, PinnedHarness, RealNode, answers, harness, until

pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = pytest.mark.slow
SECRET = "a secret of both nodes, long enough"


SETTINGS = {"TRAINERS": "MULTI_LABEL", "TRAINERS_PATH": "", "DATA_SHARD": "1/1"}


@pytest.fixture(scope="module", params=["keyed", pytest.param("pinned", marks=pytest.mark.long)])
def mesh(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    if request.param == "keyed":
        with harness(tmp_path_factory.mktemp("own")) as h:
            for _ in range(2):
                h.start(**SETTINGS, MESH_KEY=SECRET)
            yield h
        return
    pinned = PinnedHarness(tmp_path_factory.mktemp("own"))
    try:
        marks = [pinned.mark(index) for index in range(2)]
        for other in reversed(marks):
            pinned.start(**SETTINGS, TRUSTED_PEERS=other)
        for node in pinned.nodes:  # "/ready" waits for data
            until(partial(answers, node, "/health"), f"{node.name} to listen")
        yield pinned
    finally:
        pinned.stop()


def upload(node: RealNode, path: str, file: Path, **fields: str) -> httpx.Response:
    with file.open("rb") as opened:
        return node.http.post(
            path, files={**{k: (None, v) for k, v in fields.items()}, "file": (file.name, opened)}
        )


def offers(page: str) -> list[dict[str, str]]:
    return [
        dict(re.findall(r'name="(peer|name|digest)" value="([^"]*)"', form))
        for form in re.findall(r"data-offer=.*?</form>", page, re.DOTALL)
    ]


def test_a_table_becomes_a_common_job_without_a_restart(mesh: Harness, tmp_path: Path) -> None:
    first, second = mesh.nodes
    until(lambda: first.states() == {"n1": "alive"} and second.states() == {"n0": "alive"}, "the nodes to meet")
    looked = upload(first, "/view/data/new", csv_file(tmp_path / "rows.csv", ["a", "b", "y"], two_clouds(80)))
    assert looked.status_code == 303, looked.text
    draft = looked.headers["Location"]
    form = first.http.get(draft).text
    assert 'value="ROWS"' in form
    assert "selected>left out" not in form
    made = first.http.post(draft, data={"name": "CLOUDS", "target": "y", "offered": "yes", "label": "Clouds"})
    assert made.headers["Location"].startswith("/?notice="), made.text
    until(lambda: first.job("CLOUDS")["phase"] == "IDLE", "the new job to load")

    (offer,) = offers(second.http.get("/view/data").text)
    other = csv_file(tmp_path / "mine.csv", ["y", "b", "a"], [row[::-1] for row in two_clouds(60, 1)])
    taken = upload(second, "/view/data/offers", other, **offer)
    assert taken.headers["Location"].startswith("/?notice="), taken.text
    until(lambda: second.job("CLOUDS")["phase"] == "IDLE", "the job that was taken over to load")
    assert offers(second.http.get("/view/data").text) == []
    assert second.trigger("CLOUDS").status_code == 202
    until(lambda: [len(n.history("CLOUDS")) for n in mesh.nodes] == [1, 1], "the first round")
    until(lambda: all(n.job("CLOUDS")["phase"] == "IDLE" for n in mesh.nodes), "its end")
    records: list[Any] = [node.history("CLOUDS")[0] for node in mesh.nodes]
    assert [sorted(record["contributors"]) for record in records] == [["n0", "n1"], ["n0", "n1"]]
    assert first.job("CLOUDS")["digest"] == second.job("CLOUDS")["digest"]

    first.process.terminate()
    first.process.wait()
    mesh.again(first, TRAINERS="MULTI_LABEL,CLOUDS")
    mesh.up(first)
    until(lambda: bool(first.history("CLOUDS")), "the job to be there after a restart")
