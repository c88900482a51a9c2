"""What is shown of data: sizes of what is named, long lists cut, strangers' names harmless."""

from __future__ import annotations

from pathlib import Path

from flnet.cli.data_views import check_lines, data_lines, size_of
from flnet.training.soundness import Finding


def test_the_size_of_what_is_named_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "my data").mkdir()
    (tmp_path / "my data" / "x").write_bytes(bytes(10))
    assert size_of(f"images in {tmp_path / 'my data'}", tmp_path) == 10
    assert size_of(f"table {tmp_path / 'my data' / 'x'}", None) == 10
    assert size_of(f"the digits, because MNIST was not found in {tmp_path}", tmp_path) is None
    assert size_of("made up", tmp_path) is None
    assert size_of("", None) is None


def test_lines_for_people() -> None:
    classes = [f"c{number}" for number in range(20)]
    view = {
        "trainer": "T\x1b",
        "missing": "",
        "source": "here",
        "bytes": 1_500_000,
        "sample": True,
        "rows": {"train": 2000, "test": 20},
        "classes": classes,
        "counts": {"train": [100] * 20},
        "note": "a word",
    }
    assert data_lines(view) == [
        r"T\x1b: sample data: here (1.5 MB)",
        "    train           2,000 rows   " + "; ".join(f"c{n}: 100" for n in range(12)) + "; and 8 more",
        "    test               20 rows",
        "    a word",
        "",
    ]
    assert data_lines({"trainer": "T", "missing": "why"}) == ["T: no data", "    why", ""]


def test_an_empty_folder_is_said_to_be_empty(tmp_path: Path) -> None:
    assert check_lines(tmp_path, [], {}) == [f"{tmp_path}: no files"]
    many = [Finding(tmp_path / "a" / f"{n}.png", "1x1") for n in range(3)]
    assert check_lines(tmp_path, many, {}) == [f"{tmp_path / 'a'}: 3 files whole"]
