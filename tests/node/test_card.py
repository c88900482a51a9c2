"""A model's card tells what is known, hides where data lie, and shows names as text."""

from __future__ import annotations

from flnet.node import NodeRuntime
from flnet.node.card import _plain
from tests.node.judging import Judge
from tests.node.mesh import MNIST_3_7, Linear, Mesh
from tests.node.test_desk import alone
from tests.node.test_runtime import trigger


async def card_of(node: NodeRuntime, digest: str) -> str:
    file = await node.card(MNIST_3_7, digest)
    assert (file.content_type, file.file_name[-3:]) == ("text/markdown; charset=utf-8", ".md")
    return file.body.decode()


async def test_the_card_of_an_average() -> None:
    async with alone(Judge(1.0), rounds=2) as node:
        digest = node.job(MNIST_3_7)["digest"]
        text = await card_of(node, digest)
        lines = text.splitlines()
        assert lines[0] == "# MNIST 3 vs 7 Dataset, round 1"
        assert "**for tests only**" in lines
        assert f"| digest | `{digest}` |" in lines
        assert "| averaged from | 1 update (a) |" in lines
        assert "| hyper-parameters | e = 2, u = 1e-05, b = 64 |" in lines
        assert "| private parameters | `head` |" in lines
        assert "| licence | CC0-1.0 |" in lines
        assert r"| split | rows | \<three\> | seven |" in lines
        assert "| train | 3 | 1 | 2 |" in lines
        assert any(line.endswith(" | 1.0000 |") for line in lines)  # the weight of the only update
        assert "Generated sample data: made up in points.csv" in lines
        assert [line[:9] for line in lines if line.startswith(("| 0 | 1 |", "| 1 | 1 |"))] == [
            "| 0 | 1 |",
            "| 1 | 1 |",
        ]
        assert f'params = load_file("MNIST_3_7-round1-{digest[:10]}.safetensors")' in lines
        older = (await node.models(MNIST_3_7))[1]["digest"]
        assert "\n| 1 | 1 |" not in await card_of(node, older)  # its story ends where it was made


async def test_the_card_of_an_untrained_model_without_figures() -> None:
    mesh = Mesh()
    try:
        node = await mesh.add("a", Linear(1.0))
        await mesh.full()
        text = await card_of(node, node.job(MNIST_3_7)["digest"])
        assert text.startswith("# MNIST 3 vs 7 Dataset, untrained\n")
        assert "| accuracy of this model | not measured |" in text
        assert "| licence | not stated |" in text
        assert "## Rounds" not in text
        await trigger(node)
        await mesh.idle(0)
    finally:
        await mesh.stop()


def test_names_are_shown_as_text() -> None:
    assert _plain("<b>[x](http://y)|\n# z\u202e") == r"\<b\>\[x\](http://y)\| \# z"
