"""CIFAR-10 in each form in which it is found."""

from __future__ import annotations

import io
import tarfile
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flnet.datasets.download import DATA_SETS
from flnet.errors import DataMissing, TrainerError
from flnet.params.params import Array
from flnet.trainer import Partition, TrainerSettings
from tests.trainers.cifar_forms import archive_of, batch_files, made_up, npz, unpacked
from trainers import _cifar
from trainers._cifar import CLASSES, SHA256, SIZE, URL, Photographs, load_photographs


def load(data: Path | None, state: Path, shard: tuple[int, int] = (1, 1), partition: str = "iid") -> Photographs:
    state.mkdir(parents=True, exist_ok=True)
    return load_photographs(TrainerSettings(data, state, shard, partition=Partition.parse(partition)))


def contents(data: Photographs) -> list[tuple[bytes, int]]:
    parts = (data.train, data.validation, data.test)
    return sorted(
        (image.tobytes(), int(label)) for part in parts for image, label in zip(part.x, part.y, strict=True)
    )


# What is found.


def test_every_form_gives_the_same_photographs(tmp_path: Path) -> None:
    binary = {f"cifar-10-batches-bin/{k}": v for k, v in batch_files(tmp_path / "scratch").items()}
    archive_of(binary, tmp_path / "packed" / "cifar10" / "cifar-10-binary.tar.gz")
    forms = {
        "binary": unpacked(tmp_path / "binary"),
        "packed": tmp_path / "packed",
        "npz": npz(tmp_path / "npz"),
        "column": npz(tmp_path / "column", column=True),
    }
    loaded = {name: load(folder, tmp_path / "state" / name) for name, folder in forms.items()}
    expected = contents(loaded["npz"])
    assert len(expected) == 240
    for name, data in loaded.items():
        assert contents(data) == expected, name
        assert data.info.rows == {"train": 180, "validation": 20, "test": 40}
        assert data.info.classes == CLASSES
        assert data.info.counts["test"] == [4] * 10
        assert data.train.x.dtype == np.uint8


@pytest.mark.parametrize("partition", ["iid", "dirichlet:0.5", "power:1"])
def test_shards_of_the_binary_version_are_disjoint(tmp_path: Path, partition: str) -> None:
    data = unpacked(tmp_path / "data")
    nodes = [load(data, tmp_path / str(node), (node, 3), partition) for node in (1, 2, 3)]
    assert sorted(chain(*map(contents, nodes))) == contents(load(data, tmp_path / "all"))
    assert all((partition in node.info.note) is (partition != "iid") for node in nodes)


def write_jpegs(folder: Path, image: Any, train: int = 100, spoil: int | None = None) -> None:
    """`cifar10_full_jpeg.npz` with so many training and 20 test photographs, one of which may be no JPEG.

    Args:
        image: the module PIL.Image.
    """
    arrays: dict[str, Array] = {}
    for part, rows, seed in (("train", train, 0), ("test", 20, 1)):
        x, y = made_up(rows, seed)
        files = []
        for number, pixels in enumerate(x):
            file = io.BytesIO()
            image.fromarray(pixels).save(file, "JPEG", quality=95)
            files.append(b"spoilt" if part == "test" and number == spoil else file.getvalue())
        arrays[f"jpeg_{part}"] = np.frombuffer(b"".join(files), np.uint8)
        arrays[f"offsets_{part}"] = np.cumsum([0, *map(len, files)])
        arrays[f"y_{part}"] = y
    np.savez(folder / "cifar10_full_jpeg.npz", **arrays)  # type: ignore[arg-type]


def test_all_photographs_are_taken_where_a_part_of_them_lies_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install flnet[tensorflow]")
    write_jpegs(tmp_path, image, train=300)
    npz(tmp_path).joinpath("cifar10.npz").rename(tmp_path / "cifar10_20k.npz")
    whole = load(tmp_path, tmp_path / "whole").info
    assert (whole.source, whole.rows["train"]) == (f"CIFAR-10 as JPEG in {tmp_path}/cifar10_full_jpeg.npz", 270)
    monkeypatch.setattr(_cifar, "find_spec", lambda name: None)  # without Pillow a part is better than nothing
    part = load(tmp_path, tmp_path / "part").info
    assert (part.source, part.rows["train"]) == (f"CIFAR-10 in {tmp_path}/cifar10_20k.npz", 180)


def test_jpegs_are_decoded_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install flnet[tensorflow]")

    write_jpegs(tmp_path, image)
    data = load(tmp_path, tmp_path / "state")
    x, y = made_up(20, 1)
    assert data.test.y.tolist() == y.tolist()
    assert np.abs(data.test.x.astype(int) - x).mean() < 15
    write_jpegs(tmp_path, image, spoil=3)
    with pytest.raises(TrainerError, match=r"cifar10_full_jpeg.npz, test image 3 is damaged"):
        load(tmp_path, tmp_path / "state")


def test_what_is_missing_is_said_with_its_remedy(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match="FLNET_DATASETS_PATH is not set") as unset:
        load(None, tmp_path)
    assert "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz" in unset.value.remedy
    with pytest.raises(DataMissing, match="not found"):
        load(tmp_path, tmp_path)
    with pytest.raises(DataMissing, match="too few rows for this shard"):
        load(npz(tmp_path / "data"), tmp_path, (99, 99))


def test_damaged_files_are_named(tmp_path: Path) -> None:
    data = unpacked(tmp_path / "data")
    batch = data / "cifar-10-batches-bin" / "data_batch_3.bin"
    whole = batch.read_bytes()
    batch.write_bytes(whole[:-1])
    with pytest.raises(TrainerError, match=r"data_batch_3.bin is damaged"):
        load(data, tmp_path)
    batch.write_bytes(b"\x0a" + whole[1:])
    with pytest.raises(TrainerError, match="expected 0 to 9"):
        load(data, tmp_path)
    batch.unlink()
    with pytest.raises(TrainerError, match=r"data_batch_3.bin cannot be read"):
        load(data, tmp_path)
    archive = tmp_path / "packed" / "cifar-10-binary.tar.gz"
    archive.parent.mkdir()
    archive.write_bytes(b"no archive")
    with pytest.raises(TrainerError, match=r"tar.gz cannot be read"):
        load(archive.parent, tmp_path)
    with tarfile.open(archive, "w:gz"):
        pass
    with pytest.raises(TrainerError, match=r"tar.gz lacks data_batch_1.bin"):
        load(archive.parent, tmp_path)


def test_the_pickled_version_is_refused_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "unpacked" / "cifar10" / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    (folder / "test_batch").write_bytes(b"\x80\x02cposix\nsystem\n" + b"U\x04true\x85R.")
    archive = tmp_path / "packed" / "cifar-10-python.tar.gz"
    archive.parent.mkdir()
    archive.write_bytes(b"")
    for pickled in (folder, archive):
        with pytest.raises(DataMissing, match=f"{pickled} holds pickles, which flnet does not read") as refused:
            load(tmp_path / pickled.relative_to(tmp_path).parts[0], tmp_path)
        assert URL in refused.value.remedy
    unpacked(tmp_path / "unpacked")  # the binary version wins where both lie
    assert "binary files in" in load(tmp_path / "unpacked", tmp_path).info.source


def test_what_is_fetched_is_what_is_looked_for() -> None:
    (file,) = DATA_SETS["cifar10"].files
    assert (file.url, file.sha256, file.size) == (URL, SHA256, SIZE)
