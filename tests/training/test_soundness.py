"""Files of data sets looked through: what is whole, and what is wrong with the others."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from flnet.errors import DataMissing
from flnet.training.download import DATA_SETS
from flnet.training.samples import SAMPLES, png, write_sample
from flnet.training.soundness import looked_through, missing_files


def found(folder: Path) -> dict[str, tuple[str, str]]:
    return {f.path.relative_to(folder).as_posix(): (f.right, f.fault) for f in looked_through(folder)}


def test_whole_files_say_what_they_hold(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((3, 2)))
    np.save(tmp_path / "b.npy", np.zeros(4))
    (tmp_path / "c.csv").write_text("a,b\n1,2\n3,4\n")
    (tmp_path / "d.gz").write_bytes(gzip.compress(b"x"))
    (tmp_path / "notes.txt").touch()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden/x.npz").touch()
    assert found(tmp_path) == {
        "a.npz": ("x [3, 2]", ""),
        "b.npy": ("[4]", ""),
        "c.csv": ("2 rows, 2 columns", ""),
        "d.gz": ("unpacks", ""),
        "notes.txt": ("", ""),
    }


def test_damaged_files_are_named_with_what_is_wrong(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.arange(1000))
    data = bytearray((tmp_path / "a.npz").read_bytes())
    data[3000] ^= 1
    (tmp_path / "a.npz").write_bytes(data)
    (tmp_path / "b.npy").write_bytes(b"x")
    (tmp_path / "c.csv").write_text("a,b\n1,2,3\n")
    (tmp_path / "d.gz").write_bytes(gzip.compress(b"x" * 99)[:-9])
    (tmp_path / "e.csv").write_bytes(b"\xff\xfe")
    faults = {name: fault for name, (_, fault) in found(tmp_path).items()}
    assert faults["a.npz"] == "x.npy in it is damaged"
    assert faults["c.csv"] == "line 2: 3 values for 2 columns"
    assert all(faults.values())
    assert len(faults) == 5


def test_pictures_are_opened(tmp_path: Path) -> None:
    pytest.importorskip("PIL.Image", reason="needs Pillow: pip install flnet[images]")
    picture = png(np.zeros((5, 7, 3), np.uint8))
    (tmp_path / "a.png").write_bytes(picture)
    (tmp_path / "b.png").write_bytes(picture[:-30])
    (tmp_path / "c.jpg").write_bytes(b"x")
    looked = found(tmp_path)
    assert looked["a.png"] == ("7x5", "")
    assert looked["b.png"][1]
    assert looked["c.jpg"][1]


def test_published_files_are_held_to_their_checksum_and_sample_data_are_not(tmp_path: Path) -> None:
    write_sample(SAMPLES["mnist"], tmp_path)
    assert found(tmp_path)["mnist/t10k-labels-idx1-ubyte.gz"] == ("[200]", "")
    assert missing_files(DATA_SETS["mnist"], tmp_path) == []
    (tmp_path / "mnist" / ".flnet-sample-data").unlink()
    assert {fault for _, fault in found(tmp_path).values()} == {"its checksum is not that of the published file"}
    (tmp_path / "mnist/t10k-labels-idx1-ubyte.gz").unlink()
    assert missing_files(DATA_SETS["mnist"], tmp_path) == ["t10k-labels-idx1-ubyte.gz"]


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match="x is no folder; name the folder"):
        list(looked_through(tmp_path / "x"))
