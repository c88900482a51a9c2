"""The frameworks of a trainer are read off its text."""

from __future__ import annotations

from pathlib import Path

import pytest

from flnet.training.sources import Sources, UnreadableSource, families


@pytest.mark.parametrize(
    ("text", "frameworks"),
    [
        ("import torch.nn as nn", {"torch"}),
        ("def f():\n    from torch import Tensor", {"torch"}),
        ("import torchvision, mytorch", set()),
        ("import keras\nimport torch", {"tensorflow", "torch"}),
        ("from _beside import model", {"tensorflow"}),
        ("import folder.inner", {"torch"}),
        ("try:\n    pass\nexcept OSError:\n    import torch\nelse:\n    import jax", {"jax", "torch"}),
        (
            "match 1:\n  case 1:\n    class A:\n      async def f(self):\n        import keras",
            {"tensorflow"},
        ),
        ("", set()),
    ],
)
def test_frameworks_are_read_off_the_source_and_the_files_beside_it(
    tmp_path: Path, text: str, frameworks: set[str]
) -> None:
    (tmp_path / "_beside.py").write_text("import _beside\nfrom tensorflow import keras")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/__init__.py").write_text("from torch import nn")
    (tmp_path / "X.py").write_text(text)
    assert Sources().frameworks_of(tmp_path / "X.py") == frameworks


def test_a_file_that_went_away_is_said(tmp_path: Path) -> None:
    with pytest.raises(UnreadableSource, match="cannot be read"):
        Sources().frameworks_of(tmp_path / "X.py")


def test_modules_belong_to_families() -> None:
    assert families(["torch.nn", "keras", "tensorflow.math", "numpy", "torchvision"]) == {"torch", "tensorflow"}


def test_the_place_of_the_data_is_read_from_the_text(tmp_path: Path) -> None:
    (tmp_path / "X.py").write_text('import nowhere\nOTHER = 1\nDATA_PLACE = "pets"\n')
    assert Sources().declared_place(tmp_path / "X.py") == "pets"
    (tmp_path / "X.py").write_text("DATA_PLACE = 1\nx.DATA_PLACE = 'a'\n")
    assert Sources().declared_place(tmp_path / "X.py") == ""


def test_a_file_that_several_trainers_import_is_read_once(tmp_path: Path) -> None:
    common = tmp_path / "_common.py"
    common.write_text("import torch")
    for name in "AB":
        (tmp_path / f"{name}.py").write_text("import _common")
    sources = Sources()
    assert sources.frameworks_of(tmp_path / "A.py") == {"torch"}
    common.unlink()
    assert sources.frameworks_of(tmp_path / "B.py") == {"torch"}
