"""What a node shows of its state, without what differs from one start to the next."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import httpx
from safetensors.numpy import load

from tests.frozen.pages import normalised
from tests.frozen.places import TRAINERS

SETTINGS = {
    "NODE_ID": "n0",
    "TRAINERS": ",".join(TRAINERS),
    "DATA_SHARD": "1/9",
    "MESH_MODE": "pinned",
    "WAIT_TIME_IN_SECONDS_TO_FORCE_FEDAVG": "3600",
    "REQUEST_TIMEOUT_IN_SECONDS": "2",
    "COMPUTE": "thread",
}
PAGES = (
    "/",
    *(f"/view/{view}/{trainer}" for view in ("models", "predict") for trainer in TRAINERS),
    *("/view/data", "/view/keys", "/view/settings"),
)
PEER = ("id", "key", "ip", "port")
EARLIER = 10**9  # events of earlier starts have lower numbers
PASSING = ("progress", "phase_seconds")  # of a job


def arrays(body: bytes) -> dict[str, str]:
    """Shape, kind and digest of each array of a file."""
    return {
        name: f"{list(one.shape)} {one.dtype} {hashlib.sha256(one.tobytes()).hexdigest()[:16]}"
        for name, one in sorted(load(body).items())
    }


def everything(http: httpx.Client) -> dict[str, Any]:
    """All that a node tells of its state; of what happened since it was started, only what it says of that."""
    told: dict[str, Any] = {}
    for trainer in TRAINERS:
        told[f"{trainer} job"] = without(http.get(f"/jobs/{trainer}").json(), PASSING)
        told[f"{trainer} history"] = http.get(f"/jobs/{trainer}/history").json()
        models = http.get(f"/jobs/{trainer}/models").json()
        told[f"{trainer} models"] = models
        files = {one["digest"]: http.get(f"/jobs/{trainer}/models/{one['digest']}") for one in models}
        told[f"{trainer} arrays"] = {digest: arrays(answer.content) for digest, answer in files.items()}
        told[f"{trainer} cards"] = {
            one["digest"]: http.get(f"/jobs/{trainer}/models/{one['digest']}/card").text for one in models
        }
    told["peers"] = [{name: peer.get(name) for name in PEER} for peer in http.get("/peers").json()]
    told["trust"] = http.get("/trust").json()
    told["key"] = http.get("/info").json()["key"]
    lines = [json.loads(line) for line in http.get("/events.jsonl").text.splitlines()]
    told["events"] = [line for line in lines if line["id"] < EARLIER]
    now = [line for line in lines if line["id"] >= EARLIER]
    told["began"] = sorted(line["text"] for line in now if line["kind"] in ("restored", "ready"))
    return told


def page(http: httpx.Client, path: str, language: str, folder: Path) -> str:
    """A page, without the events in it, the address of the node and how its peers are.

    Args:
        folder: in which the node keeps its state.
    """
    html = http.get(path, headers={"Accept-Language": language}).text
    html = re.sub(r'<ol class="events".*?</ol>', "<ol></ol>", html, flags=re.DOTALL)
    html = re.sub(
        r'<section[^>]*aria-labelledby="mesh".*?</section>', "<section></section>", html, flags=re.DOTALL
    )
    html = html.replace(str(folder.parent), "FOLDER")
    # The port alone: a digest may hold the same five digits.
    return normalised(re.sub(rf"(?<![0-9a-z]){http.base_url.port}(?![0-9a-z])", "PORT", html))


def without(value: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """A mapping without some of its entries."""
    return {name: inner for name, inner in value.items() if name not in names}
