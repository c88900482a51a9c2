"""The mesh of the nodes that tests start as processes: of each test run its own.

Other nodes may run on this machine, and may remember a port that a test uses now. Their mesh has another name, so they
and the nodes of the test refuse each other.
"""

from __future__ import annotations

import os
import secrets

VARIABLE = "TESTED_MESH_NAME"  # one name for all processes of a run
MESH_NAME = os.environ.setdefault(VARIABLE, f"test-{secrets.token_hex(4)}")
MESH_HEADERS = {"Flnet-Mesh": MESH_NAME}
