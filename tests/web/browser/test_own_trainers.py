"""From a folder of pictures, or a table, to the first common round of two nodes: few actions in a real browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from flnet.datasets.samples import write_pictures, write_table
from tests.processes.harness import Harness, RealNode, harness, until
from tests.web.browsing import MARKS, check_looks

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("PIL", reason="Pillow is not installed")
expect = sync_api.expect
pytestmark = [*MARKS, pytest.mark.slow]
MOST_ACTIONS = 8


class Person:
    """Uses the pages of both nodes, and counts what that takes; to look at a page is no action."""

    def __init__(self) -> None:
        self.actions: list[str] = []

    def click(self, what: Any) -> None:
        self.actions.append("click")
        what.click()

    def choose(self, what: Any, place: Path) -> None:
        self.actions.append(f"choose {place.name}")
        what.set_input_files(place)


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """Two new nodes that know each other, without any data."""
    with harness(tmp_path_factory.mktemp("bring")) as h:
        for _ in range(2):
            h.start(TRAINERS="MULTI_LABEL", TRAINERS_PATH="", DATA_SHARD="1/1", COMPUTE="process")
        until(lambda: all(answers(node) for node in h.nodes), "the nodes")
        h.meshed(*h.nodes)
        yield h


def answers(node: RealNode) -> bool:
    try:
        return node.http.get("/info").status_code == 200
    except httpx.TransportError:  # it does not listen yet
        return False


def test_what_is_no_data_is_told_with_and_without_script(
    mesh: Harness, visit: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "notes.docx").write_bytes(b"no data")
    page = visit(mesh.nodes[0], "/view/data", locale="en")
    page.get_by_role("button", name="Look at the data").click()
    expect(page.get_by_role("alert").last).to_have_text("Choose a file or a folder first.")
    for has_script in (True, False):
        page = visit(mesh.nodes[0], "/view/data", locale="en", java_script_enabled=has_script)
        page.get_by_label("A table or an archive").set_input_files(tmp_path / "notes.docx")
        page.get_by_role("button", name="Look at the data").click()
        expect(page.get_by_role("alert").first).to_contain_text("notes.docx is of no known kind")


@pytest.mark.parametrize("kind", ["pictures", "table"])
def test_own_data_come_to_a_first_common_round(
    mesh: Harness, visit: Callable[..., Any], tmp_path: Path, kind: str
) -> None:
    data = tmp_path / kind
    data.mkdir()
    if kind == "pictures":
        write_pictures(data, each=30)
    else:
        write_table(data, rows=120)
        data = data / "table.csv"
    name, person = kind.upper(), Person()
    here, there = (visit(node, "/", locale="en") for node in mesh.nodes)

    person.click(here.get_by_role("link", name="Data", exact=True))
    person.choose(
        here.get_by_label("or a folder of pictures" if kind == "pictures" else "A table or an archive"), data
    )
    person.click(here.get_by_role("button", name="Look at the data"))
    expect(here.get_by_label("Id of the trainer")).to_have_value(name)
    check_looks(here)
    check_looks(visit(mesh.nodes[0], here.url.partition(str(mesh.nodes[0].port))[2], locale="es"))
    person.click(here.get_by_role("button", name="Make the trainer"))
    expect(here.get_by_role("status").first).to_contain_text(f"{name} was made.")

    until(lambda: mesh.nodes[0].job(name)["phase"] == "IDLE", "the new job to load")
    person.click(there.get_by_role("link", name="Data", exact=True))
    offer = there.locator(f"[data-offer={name}]")
    check_looks(there)
    person.choose(offer.locator("input[type=file]").first, data)
    person.click(offer.get_by_role("button", name="Take over"))
    expect(there.get_by_role("status").first).to_contain_text(f"{name} was taken over from n0.")
    button = there.locator("article", has_text=name).get_by_role("button", name="Do a training round")
    expect(button).to_be_enabled()
    person.click(button)

    until(lambda: [len(node.history(name)) for node in mesh.nodes] == [1, 1], "the first round")
    for node in mesh.nodes:
        assert sorted(node.history(name)[0]["contributors"]) == ["n0", "n1"]
    assert len(person.actions) <= MOST_ACTIONS, person.actions
