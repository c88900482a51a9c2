"""Work beside the event loop steps back for it, thread by thread."""

from __future__ import annotations

import asyncio
import os
import sys
import threading

import pytest

from flnet.node.threads import LOWER, beside_the_loop


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere all threads of a process have one priority")
async def test_threads_beside_the_loop_have_a_lower_priority_than_the_loop() -> None:
    asyncio.get_running_loop().set_default_executor(beside_the_loop())
    before = niceness()
    lowered = await asyncio.to_thread(niceness)
    assert lowered == min(19, before + LOWER)  # 19 is the lowest
    assert niceness() == before


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
