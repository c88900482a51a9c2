"""Folders of images: both layouts, classes agreed or not, bad files stopped at or counted, splits kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flnet.errors import DataMissing, TrainerError
from flnet.training.own_images import load_images
from tests.training.own_files import class_folders, images, node, picture, save


def test_class_folders_are_split_for_good(tmp_path: Path) -> None:
    class_folders(tmp_path / "pictures", each=50)
    first = load_images(images(), node(tmp_path))
    assert first.classes == ("cat", "dog")
    assert first.info.rows == {"train": 70, "validation": 10, "test": 20}
    assert first.info.source == f"images in {tmp_path / 'pictures'}"
    assert first.info.note == ""
    held_back = {first.images[row].tobytes() for row in first.sides["test"]}
    for i in range(30):
        save(tmp_path / f"pictures/dog/new{i}.png", picture(5000 + i, 1))
    again = load_images(images(), node(tmp_path))
    assert not held_back & {again.images[row].tobytes() for row in again.sides["train"]}
    assert sum(again.info.rows.values()) == 130


def test_labels_follow_the_folders_in_the_order_of_the_classes(tmp_path: Path) -> None:
    class_folders(tmp_path / "pictures", each=20)
    data = load_images(images(classes=["dog", "cat"]), node(tmp_path))
    assert data.classes == ("dog", "cat")
    for row in data.sides["train"]:
        assert data.images[row].mean(axis=(0, 1)).argmax() == (1, 0)[data.labels[row]]


def test_folders_that_are_split_already_stay_so(tmp_path: Path) -> None:
    for part, each in (("train", 20), ("val", 5), ("test", 6)):
        class_folders(tmp_path / "pictures" / part, each=each)
    assert load_images(images(), node(tmp_path)).info.rows == {"train": 40, "validation": 10, "test": 12}


def test_validation_is_taken_from_training_if_there_is_none(tmp_path: Path) -> None:
    for part, each in (("train", 40), ("test", 6)):
        class_folders(tmp_path / "pictures" / part, each=each)
    rows = load_images(images(), node(tmp_path)).info.rows
    assert (rows["train"] + rows["validation"], rows["test"]) == (80, 12)
    assert 8 <= rows["validation"] <= 12


def test_train_without_test_is_told(tmp_path: Path) -> None:
    class_folders(tmp_path / "pictures/train")
    with pytest.raises(TrainerError, match="has train but no test; expected <class name>"):
        load_images(images(), node(tmp_path))


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    class_folders(tmp_path / "pictures", ("train", "bus"))
    assert load_images(images(), node(tmp_path)).classes == ("bus", "train")


def test_a_class_that_is_not_agreed_is_told_with_what_is_expected_and_found(tmp_path: Path) -> None:
    class_folders(tmp_path / "pictures", ("cat", "fox"))
    words = "the folder 'fox' is no class of this trainer: expected cat, dog; found cat, fox"
    with pytest.raises(TrainerError, match=words):
        load_images(images(classes=["cat", "dog"]), node(tmp_path))


def test_a_class_without_images_here_is_noted(tmp_path: Path) -> None:
    class_folders(tmp_path / "pictures", ("cat", "dog"))
    data = load_images(images(classes=["cat", "dog", "fox"]), node(tmp_path))
    assert data.info.note == "no image of fox"


def test_one_corrupt_jpeg_among_fifty_stops_and_is_named(tmp_path: Path) -> None:
    bad = class_folders(tmp_path / "pictures") / "cat" / "007.jpg"
    bad.write_bytes(bad.read_bytes()[:200])
    with pytest.raises(
        TrainerError, match=r"cat/007\.jpg cannot be read: .*; mend or remove it, or set on_bad_file"
    ):
        load_images(images(), node(tmp_path))


def test_or_it_is_skipped_counted_and_named(tmp_path: Path) -> None:
    root = class_folders(tmp_path / "pictures")
    (root / "cat" / "007.jpg").write_bytes(b"broken")
    (root / "cat" / "notes.txt").touch()
    (root / "readme.md").touch()
    (root / ".hidden").touch()
    for _ in range(2):  # the second time from the cache
        data = load_images(images(on_bad_file="skip"), node(tmp_path))
        assert sum(data.info.rows.values()) == 49
        assert "1 files that cannot be read were skipped: cat/007.jpg (" in data.info.note
        assert (
            "2 entries that are no .jpg, .jpeg or .png were left out: readme.md, cat/notes.txt" in data.info.note
        )
        names = {data.images[row].max() for rows in data.sides.values() for row in rows}
        assert 0 not in names


def test_shards_are_disjoint_and_hold_all(tmp_path: Path) -> None:
    class_folders(tmp_path / "pictures", each=30)
    seen = []
    for part in (1, 2):
        data = load_images(images(), node(tmp_path, f"n{part}", (part, 2)))
        seen += [data.images[row].tobytes() for rows in data.sides.values() for row in rows]
        assert sorted(np.bincount(data.labels)) == [15, 15]
    assert len(seen) == len(set(seen)) == 60


@pytest.mark.parametrize("split", [False, True])
def test_parts_of_a_partition_are_disjoint_and_hold_all(tmp_path: Path, split: bool) -> None:
    for place in ("pictures/train", "pictures/test") if split else ("pictures",):
        class_folders(tmp_path / place, each=40)
    seen = []
    for part in (1, 2):
        told = node(tmp_path, f"n{part}", (part, 2), "pathological:1")
        data = load_images(images(), told)
        seen += [(side, row) for side, rows in data.sides.items() for row in rows]
        assert len(np.unique(data.labels)) == 1  # of the images to test with too
        assert data.info.note.startswith(
            f"this node has part {part} of 2 of the partition pathological:1; no image"
        )
    assert len(seen) == (160 if split else 80)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda root: root.touch(), TrainerError, "is no folder; expected <class name>"),
        (lambda root: root.mkdir(), TrainerError, r"has 0 class folders \(none\); expected two or more"),
        (lambda root: class_folders(root, ("cat",)), TrainerError, r"has 1 class folders \(cat\)"),
        (
            lambda root: [(root / name).mkdir(parents=True) for name in ("cat", "dog")],
            DataMissing,
            "there are no images in",
        ),
        (lambda root: class_folders(root, each=1), DataMissing, "too few images in .*; bring more images"),
        (lambda root: class_folders(root, ("a\x07", "b")), TrainerError, "is no name for a class"),
        (lambda root: None, DataMissing, "pictures is not there"),
    ],
)
def test_what_is_no_folder_of_classes_is_told(
    tmp_path: Path, make: object, error: type[TrainerError], words: str
) -> None:
    assert callable(make)
    make(tmp_path / "pictures")
    with pytest.raises(error, match=words):
        load_images(images(), node(tmp_path))
