"""Predictions by id over real nodes: the same at each holder, and refused at once where a holder was killed."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.processes.harness import Harness, RealNode, until
from tests.processes.vertical_kills import SETTINGS, TRAINER, T


def ask(node: RealNode, *ids: str) -> httpx.Response:
    return node.http.post(f"/jobs/{T}/predict/ids", json={"ids": list(ids)})


@pytest.mark.slow
def test_each_holder_answers_alike_until_one_is_killed(tmp_path: Path) -> None:
    pytest.importorskip("nacl", reason="PyNaCl is not installed (the extra `vertical`)")
    harness = Harness(tmp_path)
    allowed = TRAINER.replace("    in_flight = 2\n", "    in_flight = 2\n    allows_predictions = True\n")
    (harness.trainers / f"{T}.py").write_text(allowed)
    try:
        nodes = [harness.start(**SETTINGS, COMPUTE="process" if part == 2 else "thread") for part in range(3)]
        harness.ready()
        harness.meshed(*nodes)
        assert ask(nodes[0], "P001").status_code == 503
        assert nodes[0].trigger(T).status_code == 202
        until(lambda: all(node.job(T)["vertical"]["epochs"] == 1 for node in nodes), "an epoch")
        until(lambda: all(node.job(T)["phase"] == "IDLE" for node in nodes), "rest")
        answers = [ask(node, "P001", "nobody", " p077") for node in nodes]
        assert [answer.status_code for answer in answers] == [200] * 3, [answer.text for answer in answers]
        first = answers[0].json()
        assert all(answer.json() == first for answer in answers)
        assert (first["ids"], first["unknown"]) == (["P001", " p077"], ["nobody"])
        assert [made["holder"] for made in first["predictions"]] == ["n1"]
        assert all(abs(sum(row) - 1) < 1e-5 for row in first["predictions"][0]["probabilities"])
        nodes[2].kill()
        for node in nodes[:2]:
            answer = ask(node, "P001")
            assert answer.status_code == 503
            assert "n2" in answer.json()["message"]
    finally:
        harness.stop()
