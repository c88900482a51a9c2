"""Where the real data sets are, if they are."""

from __future__ import annotations

import os
from pathlib import Path

BESIDE = Path(__file__).parents[2].parent / "shared" / "data"


def datasets_path() -> Path:
    """FLNET_DATASETS_PATH, or a folder beside the repository."""
    return Path(os.environ.get("FLNET_DATASETS_PATH") or BESIDE)
