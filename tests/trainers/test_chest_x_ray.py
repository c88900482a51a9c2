"""The X-rays as they are found, patients kept whole, damaged files named."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flnet.errors import DataMissing, TrainerError
from flnet.trainer import Partition, TrainerSettings
from trainers._chest import XRays, load_xrays, patient_of

PIL = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install flnet[tensorflow]")
FILES = {"NORMAL": "IM-{:04d}-{:04d}.jpeg", "PNEUMONIA": "person{}_virus_{}.jpeg"}


def picture(path: Path, seed: int, size: tuple[int, int] = (90, 70)) -> None:
    """A made-up X-ray of its own: grey noise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 255, (size[1], size[0]), np.uint8)
    PIL.fromarray(pixels).save(path)


def xray_folder(folder: Path, patients: int = 12, each: int = 2, names: dict[str, str] | None = None) -> Path:
    """The published arrangement with few patients, each with pictures of its own; the folder of data sets."""
    seed = 0
    for part, first in (("train", 0), ("val", 500), ("test", 800)):
        for kind, pattern in (names or FILES).items():
            for patient in range(first, first + (patients if part == "train" else 2)):
                for number in range(each):
                    seed += 1
                    picture(folder / "chest_xray" / part / kind / pattern.format(patient, number), seed)
    return folder


def load(data: Path | None, state: Path, shard: tuple[int, int] = (1, 1), partition: str = "iid") -> XRays:
    state.mkdir(parents=True, exist_ok=True)
    return load_xrays(TrainerSettings(data, state, shard, partition=Partition.parse(partition)))


# What is found.


def test_a_folder_of_images_becomes_grey_bytes_at_training_size(tmp_path: Path) -> None:
    xrays = load(xray_folder(tmp_path / "data"), tmp_path)
    assert sum(xrays.info.rows.values()) == 2 * (12 + 2) * 2
    assert len(xrays.official) == 2 * 2 * 2
    assert xrays.train.x.shape[1:] == (64, 64, 1)
    assert xrays.train.x.dtype == np.uint8
    assert set(xrays.train.y) == {0, 1}
    assert "28 patients; 8 more X-rays, the published test part, are for measuring only" in xrays.info.note


def test_damaged_images_are_named_counted_and_left_out(tmp_path: Path) -> None:
    root = xray_folder(tmp_path / "data") / "chest_xray"
    whole = sorted((root / "train" / "NORMAL").iterdir())
    whole[0].write_bytes(b"no picture")
    whole[1].write_bytes(whole[2].read_bytes()[:700])
    whole[3].write_bytes(b"")
    (root / "test" / "PNEUMONIA" / "person800_virus_0.jpeg").write_bytes(b"\xff\xd8\xff")
    xrays = load(tmp_path / "data", tmp_path)
    assert sum(xrays.info.rows.values()) == 56 - 3
    assert len(xrays.official) == 7
    assert "4 damaged left out: train/NORMAL/IM-0000-0000.jpeg (it is neither" in xrays.info.note
    assert "and 1 more" in xrays.info.note
    again = load(tmp_path / "data", tmp_path)  # from the cache: as loud
    assert again.info == xrays.info


def test_only_changed_images_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = xray_folder(tmp_path / "data")
    first = load(data, tmp_path)
    opened: list[str] = []
    opening = PIL.open

    def told(file: Path, **how: object) -> object:
        opened.append(file.name)
        return opening(file, **how)

    monkeypatch.setattr(PIL, "open", told)
    assert load(data, tmp_path).train.x.tobytes() == first.train.x.tobytes()
    assert opened == []
    changed = data / "chest_xray" / "train" / "NORMAL" / "IM-0003-0001.jpeg"
    picture(changed, 999)
    os.utime(changed, ns=(5, 5))
    load(data, tmp_path)
    assert opened == [changed.name]


def test_a_damaged_cache_costs_time_and_nothing_else(tmp_path: Path) -> None:
    data = xray_folder(tmp_path / "data")
    first = load(data, tmp_path)
    (cache,) = tmp_path.glob("chest-64-own.npz")
    cache.write_bytes(cache.read_bytes()[:-1000])
    assert load(data, tmp_path).train.x.tobytes() == first.train.x.tobytes()


def test_other_endings_and_leftovers_of_other_systems(tmp_path: Path) -> None:
    names = {"NORMAL": "NORMAL2-IM-{:04d}-{:04d}.PNG", "PNEUMONIA": "BACTERIA-{}-{:04d}.jpg"}
    root = xray_folder(tmp_path / "data", names=names) / "chest_xray"
    (root / "train" / "NORMAL" / ".DS_Store").write_bytes(b"x")
    (root / "train" / "NORMAL" / "._NORMAL2-IM-0000-0000.png").write_bytes(b"x")
    root.rename(tmp_path / "inner")  # as the usual archive unpacks
    (tmp_path / "data" / "chest_xray").mkdir()
    (tmp_path / "inner").rename(tmp_path / "data" / "chest_xray" / "chest_xray")
    xrays = load(tmp_path / "data", tmp_path)
    assert sum(xrays.info.rows.values()) == 56
    assert "damaged" not in xrays.info.note


def test_a_picture_that_is_there_twice_counts_once(tmp_path: Path) -> None:
    root = xray_folder(tmp_path / "data") / "chest_xray"
    bytes_of = (root / "train" / "NORMAL" / "IM-0001-0000.jpeg").read_bytes()
    (root / "train" / "NORMAL" / "IM-0900-0000.jpeg").write_bytes(bytes_of)
    published = (root / "test" / "NORMAL" / "IM-0800-0000.jpeg").read_bytes()
    (root / "train" / "NORMAL" / "IM-0901-0000.jpeg").write_bytes(published)
    xrays = load(tmp_path / "data", tmp_path)
    assert sum(xrays.info.rows.values()) == 56
    assert "2 left out that are there twice" in xrays.info.note


def test_what_is_missing_is_said_with_its_remedy(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match="FLNET_DATASETS_PATH is not set") as unset:
        load(None, tmp_path)
    assert "chest_xray/{train,val,test}/{NORMAL,PNEUMONIA}" in unset.value.remedy
    with pytest.raises(DataMissing, match=f"not found in {re.escape(str(tmp_path))}"):
        load(tmp_path, tmp_path)
    (tmp_path / "chest_xray" / "pictures").mkdir(parents=True)
    with pytest.raises(DataMissing, match=r"no images in train/NORMAL; chest_xray has pictures") as wrong:
        load(tmp_path, tmp_path)
    assert "arrange them as" in wrong.value.remedy


def test_too_many_shards_for_the_patients_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match="too few X-rays for this shard"):
        load(xray_folder(tmp_path / "data", patients=2), tmp_path, (9, 9))


def packed(folder: Path, **changed: object) -> Path:
    """The .npz form with 40 made-up images; arrays given here take the place of its own."""
    chance, arrays = np.random.default_rng(0), {}
    for part, rows, first in (("train", 40, 0), ("val", 4, 100), ("test", 8, 200)):
        arrays[f"x_{part}"] = chance.integers(0, 255, (rows, 64, 64), np.uint8)
        arrays[f"y_{part}"] = np.arange(rows, dtype=np.uint8) % 2
        arrays[f"patient_{part}"] = (first + np.arange(rows) // 4).astype(np.int32)
    folder.mkdir(exist_ok=True)
    np.savez(folder / "chest_xray_pneumonia_64.npz", **(arrays | changed))  # type: ignore[arg-type]
    return folder


def test_the_packed_form(tmp_path: Path) -> None:
    xrays = load(packed(tmp_path / "data"), tmp_path)
    assert sum(xrays.info.rows.values()) == 44
    assert len(xrays.official) == 8
    assert "11 patients" in xrays.info.note


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"x_train": np.zeros((40, 32, 32), np.uint8)}, r"images are uint8 \[40, 32, 32\]"),
        ({"y_test": np.full(8, 2, np.uint8)}, "labels are uint8"),
        ({"patient_val": np.zeros(4)}, "patients are float64"),
    ],
)
def test_a_packed_file_of_another_kind_is_refused(tmp_path: Path, changed: dict[str, object], words: str) -> None:
    with pytest.raises(TrainerError, match=words):
        load(packed(tmp_path / "data", **changed), tmp_path)


# Patients.


def test_the_patient_is_read_off_the_published_names() -> None:
    names = ["person7_bacteria_24.jpeg", "person7_virus_1.jpeg", "person0007_x.png"]
    assert {patient_of(name) for name in names} == {"person 7"}
    assert {patient_of(n) for n in ("IM-0115-0001.jpeg", "NORMAL2-IM-0115-0001-0002.jpeg")} == {"IM 115"}
    assert patient_of("VIRUS-1003233-0001.jpeg") == patient_of("BACTERIA-1003233-0002.jpeg") == "patient 1003233"
    assert patient_of("scan.png") == "file scan.png"


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_no_patient_is_on_two_sides_or_on_two_nodes(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 5), min_size=20, max_size=30))
    patients = np.repeat(np.arange(len(sizes)), sizes).astype(np.int32)
    rows = len(patients)
    images = np.zeros((rows, 64, 64), np.uint8)
    images[:, 0, 0], images[:, 0, 1] = patients, np.arange(rows)  # each shows whose it is
    given_ = {"x_train": images, "y_train": (patients % 2).astype(np.uint8), "patient_train": patients}
    partition = data.draw(st.sampled_from(["iid", "groups", "pathological:1"]))
    seen: dict[int, tuple[int, str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        root = packed(Path(folder) / "data", **given_)
        for node in (1, 2):
            xrays = load(root, Path(folder) / str(node), (node, 2), partition)
            assert (f"part {node} of 2 of the partition {partition}" in xrays.info.note) is (partition != "iid")
            for side in ("train", "validation", "test"):
                for image in getattr(xrays, side).x:
                    if not image[2:].any():  # one of those made here
                        assert seen.setdefault(int(image[0, 0, 0]), (node, side)) == (node, side)
    assert len(seen) == len(sizes)
