"""Files of a few bytes that fill memory where a trainer reads them: arrays of zeros, claimed sizes, names without end."""

from __future__ import annotations

import gzip
import io
import tarfile
import tracemalloc
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flnet.datasets.archives import MAX_FILES, TarEntry, tar_entries
from flnet.datasets.dataset_import import bring_to, place_of
from flnet.datasets.download import check_files
from flnet.datasets.labelled import MOST_TIMES_LARGER, SMALL, SparseRows, read_npz
from flnet.datasets.multi_label import read_multi_label
from flnet.errors import ImportRefused, TrainerError
from flnet.trainer import TrainerFile
from trainers._cifar import _unpacked

MIB = 1024 * 1024
TOO_LARGE = rf"unpacked; expected at most {MOST_TIMES_LARGER} times as many"


def packed(path: Path, names: str, size: int) -> Path:
    """An .npz file whose arrays are zeros of so many bytes each."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names.split():
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array_header_1_0(
                    member, {"descr": "|u1", "fortran_order": False, "shape": (size, 1)}
                )
                for _ in range(size // MIB):
                    member.write(bytes(MIB))
    return path


def claiming(path: Path, **arrays: tuple[str, Any]) -> Path:
    """An .npz file whose arrays claim a type and a shape, and hold nothing."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, (descr, shape) in arrays.items():
            head = io.BytesIO()
            claimed = {"descr": descr, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(head, claimed)
            archive.writestr(f"{name}.npy", head.getvalue())
    return path


@contextmanager
def in_little_memory(most: int = 40 * MIB) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < most


def test_arrays_of_zeros_are_not_unpacked(tmp_path: Path) -> None:
    images = packed(tmp_path / "mnist.npz", "x_train y_train x_test y_test", 50 * MIB)
    table = packed(tmp_path / "ml_t.npz", "X Y label_names", 50 * MIB)
    assert images.stat().st_size < MIB
    with in_little_memory():
        with pytest.raises(TrainerError, match=TOO_LARGE):
            read_npz(images)
        with pytest.raises(TrainerError, match=TOO_LARGE):
            read_multi_label(table)
        faults = [look.fault for look in check_files(tmp_path)]
    assert all("unpacked; expected" in fault for fault in faults) and len(faults) == 2


def test_honest_arrays_may_be_packed_well(tmp_path: Path) -> None:
    path = packed(tmp_path / "t.npz", "a", 50 * MIB)  # less than SMALL
    assert read_npz(path, ["a"])[0].nbytes == 50 * MIB < SMALL


@pytest.mark.parametrize("shape", [(10**15,), (2**40, 2**20)])
def test_an_array_that_claims_more_than_it_has_is_damaged(tmp_path: Path, shape: tuple[int, ...]) -> None:
    path = claiming(tmp_path / "t.npz", a=("<f8", shape))
    with pytest.raises(TrainerError, match="cannot be read as an"):
        read_npz(path, ["a"])


@pytest.mark.parametrize("columns", [10**9, 10**14])
def test_a_table_of_no_rows_and_columns_without_end_is_refused(tmp_path: Path, columns: int) -> None:
    dense = claiming(tmp_path / "d.npz", X=("<f4", (0, columns)), Y=("|u1", (0, 0)), label_names=("<U1", (0,)))
    sparse, none = tmp_path / "s.npz", np.zeros(0, np.int64)
    np.savez(sparse, X_data=none, X_indices=none, X_indptr=np.zeros(2, np.int64), X_shape=np.array([1, columns]),
             Y=np.zeros((1, 0), np.uint8), label_names=np.zeros(0, "<U1"))  # fmt: skip
    for path in (dense, sparse):
        with in_little_memory(), pytest.raises(TrainerError, match="columns; expected at most 100,000"):
            read_multi_label(path)


def test_sparse_rows_are_not_written_out_beyond_memory() -> None:
    none = np.zeros(0, np.int64)
    rows = SparseRows(none, none, np.zeros(100_001, np.int64), (100_000, 100_000))
    assert rows.dense(np.arange(10)).shape == (10, 100_000)
    with in_little_memory(), pytest.raises(TrainerError, match="take 40,000,000,000 bytes; expected at most"):
        rows.dense(np.arange(100_000))


def test_an_import_counts_arrays_as_what_they_unpack_to(tmp_path: Path) -> None:
    source = packed(tmp_path / "mnist.npz", "x_train", 80 * MIB)
    place = place_of(TrainerFile("X", "x.py", place="mnist"), tmp_path / "data")
    with pytest.raises(ImportRefused, match=r"holds more than 0.05 GB"):
        bring_to(place, source, 0.05)
    assert list(place.datasets.iterdir()) == []


def long_name(kind: bytes) -> bytes:
    """The header of a name, or of facts, of 4 GiB."""
    entry = tarfile.TarInfo("x")
    entry.type, entry.size = kind, 4 * 1024 * MIB
    return entry.tobuf()


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE])
@pytest.mark.parametrize("first", [b"", tarfile.TarInfo("a").tobuf()])
def test_a_name_without_end_in_a_tar_archive_is_not_read(tmp_path: Path, kind: bytes, first: bytes) -> None:
    source = tmp_path / "cifar-10-binary.tar.gz"
    with gzip.open(source, "wb", compresslevel=1) as file:
        file.write(first + long_name(kind))
        for _ in range(100):
            file.write(bytes(MIB))
    place = place_of(TrainerFile("X", "x.py", place="cifar10"), tmp_path / "data")
    with in_little_memory():
        with pytest.raises(ImportRefused, match=r"a name in it has 4,294,967,296 bytes|cannot be unpacked"):
            bring_to(place, source, 1)
        with pytest.raises(TrainerError, match="cannot be read"):
            _unpacked(source)


def test_entries_of_a_tar_archive_are_bounded_in_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flnet.datasets.archives.MAX_FILES", 3)
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for number in range(4):
            folder = tarfile.TarInfo(f"d{number}")
            folder.type = tarfile.DIRTYPE  # which count as no files
            archive.addfile(folder)
    with (
        tarfile.open(tmp_path / "a.tar", tarinfo=TarEntry) as archive,
        pytest.raises(tarfile.ReadError, match="more than 3 entries"),
    ):
        list(tar_entries(archive))
    assert MAX_FILES == 1_000_000
