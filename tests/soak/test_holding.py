"""What a node holds is counted, and written down while it runs."""

from __future__ import annotations

import gc
from pathlib import Path

import psutil
import pytest

from tests.soak.holding import held


class Held:
    """Something to count."""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not say what a process has")
def test_what_is_there_is_counted() -> None:
    gc.collect()
    before = held()
    kept = [Held() for _ in range(100_000)]
    after = held()
    assert after["kinds"][f"{__name__}.Held"] == len(kept)
    assert after["objects"] - before["objects"] >= len(kept)
    assert after["blocks"] - before["blocks"] >= len(kept)
    assert after["resident"] == pytest.approx(psutil.Process().memory_info().rss, rel=0.1)
