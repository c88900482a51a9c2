"""A bank and an insurer train over their columns on the pages of two real nodes; each stage looks as it should."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.processes.harness import Harness, RealNode, harness, until
from tests.web.browsing import MARKS, check_looks, see, without_reload

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytest.importorskip("nacl", reason="PyNaCl is not installed (the extra `vertical`)")
expect = sync_api.expect
pytestmark = [*MARKS, pytest.mark.slow]
Open = Callable[..., Any]
CLAIMS = 'kind = "vertical"\nlabel = "Claims"\nid = "customer"\nbatch = 8\ndata = "{data}"\n{more}'
ALLOWED = "allow_predictions = true\n"
PEOPLE = 800
ABSENT = ("aggregation", "Keep training until", "Was model exchanged?", "FedAvg", "Epochs (e)", "drift")


def write(folder: Any, name: str, columns: dict[str, list[Any]], more: str) -> str:
    """A CSV file, and the trainer's TOML file in a folder of its own; that folder."""
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    trainers = folder / name
    trainers.mkdir()
    (trainers / "CLAIMS.toml").write_text(CLAIMS.format(data=f"{name}.csv", more=more))
    return str(trainers)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """A bank with two columns, and an insurer with one and the label."""
    chance = np.random.default_rng(3)
    income, age, cost = (np.round(chance.normal(size=PEOPLE), 2) for _ in range(3))
    claim = np.where(income - cost > 0, "yes", "no")
    ids = [f"C{number:04}" for number in range(PEOPLE)]
    order = chance.permutation(PEOPLE)[: PEOPLE - 50]
    bank = {"customer": ids, "income": list(income), "age": list(age), "branch": [1] * PEOPLE}
    known: dict[str, Any] = {"customer": ids, "cost": cost, "claim": claim}
    insurer = {name: [column[at] for at in order] for name, column in known.items()}
    with harness(tmp_path_factory.mktemp("vertical")) as h:
        settings = {"TRAINERS": "CLAIMS", "DATASETS_PATH": str(h.folder), "DATA_SHARD": "1/1"}
        shared = write(h.folder, "bank", bank, 'ignore = ["branch"]\nshare_names = true\n' + ALLOWED)
        h.start(NODE_ID="bank", TRAINERS_PATH=shared, **settings)
        labelled = write(h.folder, "insurer", insurer, 'target = "claim"\n' + ALLOWED)
        h.start(NODE_ID="insurer", TRAINERS_PATH=labelled, **settings)
        h.ready()
        yield h


@pytest.fixture
def quiet(visit: Open) -> Iterator[Open]:
    """`visit`, for pages whose console has to stay empty."""
    told: list[str] = []

    def open_page(*args: Any, **options: Any) -> Any:
        page = visit(*args, **options)
        page.on("console", lambda message: told.append(message.text))
        page.reload()
        return page

    yield open_page
    assert told == []


def row_of(page: Any, name: str) -> Any:
    return page.locator("table.holders tr", has=page.get_by_role("rowheader", name=name))


def at_rest(node: RealNode, epochs: int) -> bool:
    job = node.job("CLAIMS")
    return bool(job["vertical"]["epochs"] == epochs and job["phase"] == "IDLE")


def moved(node: RealNode, way: str) -> int:
    return int(node.job("CLAIMS")["vertical"][way])


def test_two_nodes_show_who_holds_what_train_epochs_and_what_came_of_it(nodes: Harness, quiet: Open) -> None:
    bank, insurer = nodes.nodes
    here, there = quiet(insurer), quiet(bank, locale="es-ES")
    expect(row_of(here, "bank")).to_contain_text("income, age")
    expect(row_of(here, "bank")).to_contain_text("800")
    expect(row_of(here, "insurer")).to_contain_text("label and features")
    expect(row_of(there, "insurer")).to_contain_text("no se comparten")
    with without_reload(here, there):
        here.get_by_label("Epochs", exact=True).fill("3")
        here.get_by_role("button", name="Train these epochs").click()
        for page, trained in ((here, "Epochs trained"), (there, "Épocas entrenadas")):
            expect(page.locator("dl > div", has_text=trained)).to_contain_text("3")
        expect(here.locator("dl > div", has_text="Common rows")).to_contain_text("750")
        expect(here.locator("dl > div", has_text=re.compile("^AUC"))).to_contain_text(re.compile(r"0\.[5-9]"))
        expect(here.locator("dl > div", has_text="Own columns alone").first).to_contain_text("accuracy")
        expect(here.locator("dl > div", has_text="Gain over")).to_contain_text(re.compile("AUC [+-]0"))
        expect(here.locator("dl > div", has_text="Messages of this job")).to_contain_text(
            re.compile("kB sent, .* kB")
        )
        expect(there.locator("article .outcome")).to_have_text("la época 2 de los modelos ha terminado")
    until(lambda: all(at_rest(node, 3) for node in nodes.nodes), "the end of the epochs")
    words = here.locator("article").inner_text()
    assert [absent for absent in ABSENT if absent in words] == []
    until(lambda: moved(bank, "sent") == moved(insurer, "received") > 0, "the same bytes on both nodes")
    check_looks(here)
    check_looks(there)
    models = quiet(insurer, "/view/models/CLAIMS")
    see(models, "Each keeps its own part of the model")
    assert models.locator("a[download]").count() == 0
    check_looks(models)
    known = (nodes.folder / "insurer.csv").read_text().splitlines()[1].split(",")[0]
    predict_on_the_page(quiet(bank, "/view/predict/CLAIMS"), known)


def predict_on_the_page(page: Any, known: str) -> None:
    """Ask for one person, and for one whom nobody knows."""
    page.get_by_label("Ids, one a line").fill(f"{known}\nC9999")
    page.get_by_role("button", name="Predict").click()
    expect(page.get_by_role("rowheader", name=known)).to_be_visible()
    expect(page.locator("td[data-said]")).to_have_text(re.compile("^(yes|no)$"))
    see(page, "Not among the people whom all holders know: C9999")
    see(page, "Predicted by the models of epoch 2")
    check_looks(page)


def test_a_stage_is_seen_with_its_batches_and_a_holder_that_is_gone_with_the_reason(
    nodes: Harness, quiet: Open
) -> None:
    bank, insurer = nodes.nodes
    here = quiet(insurer)
    here.evaluate(
        """() => {
          window.stages = new Set();
          const note = () => {
            for (const step of document.querySelectorAll(".stages [aria-current]")) window.stages.add(step.textContent);
            for (const bar of document.querySelectorAll(".stages ~ progress")) window.batches = bar.max;
          };
          new MutationObserver(note).observe(document.body, { subtree: true, childList: true, attributes: true });
        }"""
    )
    assert insurer.trigger("CLAIMS", 1000).status_code == 202
    here.wait_for_function("() => window.stages.has('Training') && window.batches > 0")
    assert here.evaluate("window.batches") == 75  # 600 of 750 rows are trained on, 8 in a batch
    see(here, "more epochs to come")
    bank.kill()
    see(here, "bank is not reachable")
    expect(row_of(here, "bank")).to_contain_text("does not answer")
    check_looks(here)
    here.get_by_role("button", name="Stop after this epoch").click()
    expect(here.get_by_text("more epochs to come")).to_have_count(0)
    nodes.again(bank)
    nodes.ready()
    before = insurer.job("CLAIMS")["vertical"]["epochs"]
    here.get_by_role("button", name="Train an epoch").click()
    until(lambda: at_rest(insurer, before + 1), "one more epoch")
    expect(here.locator("article .notice.bad")).to_have_count(0)
