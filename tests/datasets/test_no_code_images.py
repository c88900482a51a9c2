"""Folders of images: both layouts, classes agreed or not, bad files stopped at or counted, splits kept."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flnet.datasets import no_code_images as image_cache
from flnet.datasets.no_code_images import ImageData, decoded_once, load_images
from flnet.datasets.pictures import decoded
from flnet.datasets.split import stored_split
from flnet.errors import DataMissing, TrainerError
from flnet.params.params import Array
from tests.datasets.own_files import class_folders, images, node, picture, save


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
        assert "skipped files that cannot be read (1): cat/007.jpg (" in data.info.note
        assert (
            "2 entries that are no .jpg, .jpeg or .png were left out: readme.md, cat/notes.txt" in data.info.note
        )
        names = {data.images[row].max() for rows in data.sides.values() for row in rows}
        assert 0 not in names


@pytest.mark.parametrize(
    ("partition", "places"),
    [
        ("iid", ("pictures",)),
        ("pathological:1", ("pictures",)),
        ("pathological:1", ("pictures/train", "pictures/test")),
    ],
)
def test_parts_are_disjoint_and_hold_all(tmp_path: Path, partition: str, places: tuple[str, ...]) -> None:
    for place in places:
        class_folders(tmp_path / place, each=40)
    seen = []
    for part in (1, 2):
        data = load_images(images(), node(tmp_path, f"n{part}", (part, 2), partition))
        seen += [row for rows in data.sides.values() for row in rows]
        if partition == "iid":
            assert np.bincount(data.labels).tolist() == [20, 20]
            continue
        assert len(np.unique(data.labels)) == 1  # of the images to test with too
        assert data.info.note.startswith(f"this node has part {part} of 2 of the partition {partition}; no image")
    assert len(seen) == 80 * len(places)


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
        (lambda root: class_folders(root / "train"), TrainerError, "has train but no test; expected <class name>"),
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


# Image files decoded once: what becomes of the cache.


def test_what_was_decoded_is_mapped_from_disk_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [save(tmp_path / f"d/{i}.png", picture(i, 0)) for i in range(3)]
    first = decoded_once(tmp_path, files, 8, "rgb", tmp_path)
    assert isinstance(first.images, np.memmap)
    assert not first.images.flags.writeable
    assert [path.name for path in tmp_path.glob("images-*.part")] == []
    monkeypatch.setattr(image_cache, "decoded", lambda *_: pytest.fail("decoded again"))
    assert np.array_equal(decoded_once(tmp_path, files, 8, "rgb", tmp_path).images, first.images)


def test_a_changed_file_another_size_and_other_files_are_decoded_again(tmp_path: Path) -> None:
    files = [save(tmp_path / f"d/{i}.png", picture(i, 0)) for i in range(3)]
    first = np.array(decoded_once(tmp_path, files, 8, "rgb", tmp_path).images)
    save(files[1], picture(7, 2))
    os.utime(files[1], ns=(1, 1))
    second = np.array(decoded_once(tmp_path, files, 8, "rgb", tmp_path).images)
    assert [np.array_equal(a, b) for a, b in zip(first, second, strict=True)] == [True, False, True]
    assert decoded_once(tmp_path, files, 16, "grey", tmp_path).images.shape == (3, 16, 16)
    assert decoded_once(tmp_path, files[:2], 8, "rgb", tmp_path).images.shape == (2, 8, 8, 3)
    assert len(list(tmp_path.glob("images-*.npy"))) == 1


def test_a_damaged_cache_is_written_again(tmp_path: Path) -> None:
    files = [save(tmp_path / "d/a.png", picture(0, 0))]
    first = np.array(decoded_once(tmp_path, files, 8, "rgb", tmp_path).images)
    (cache,) = tmp_path.glob("images-*.npy")
    cache.write_bytes(cache.read_bytes()[:100])
    assert np.array_equal(decoded_once(tmp_path, files, 8, "rgb", tmp_path).images, first)


def test_a_full_disk_is_told_before_anything_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int, start: int, length: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    monkeypatch.setattr(image_cache, "decoded", lambda *given: pytest.fail("it was decoded"))
    root, state = class_folders(tmp_path / "pictures", each=2), tmp_path / "state"
    state.mkdir()
    with pytest.raises(TrainerError, match=r"cannot be kept in .*: .*No space left on device"):
        decoded_once(root, sorted(root.rglob("*.png")), 8, "rgb", state)
    assert list(state.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="the system cannot take room")
def test_room_is_taken_for_all_images_before_the_first_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, state = class_folders(tmp_path / "pictures", each=40), tmp_path / "state"
    state.mkdir()
    files, taken = sorted(root.rglob("*.*")), []
    files = [file for file in files if file.is_file()]

    def looked_at(*given: Any) -> Array:
        taken.append(next(state.glob("*.part")).stat().st_blocks * 512)
        return decoded(*given)

    monkeypatch.setattr(image_cache, "decoded", looked_at)
    decoded_once(root, files, 64, "rgb", state)
    assert taken[0] >= len(files) * 64 * 64 * 3


def test_where_room_cannot_be_taken_images_are_decoded_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(handle: int, start: int, length: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "posix_fallocate", cannot, raising=False)
    root, state = class_folders(tmp_path / "pictures", each=2), tmp_path / "state"
    state.mkdir()
    files = sorted(root.rglob("*.png"))
    assert len(decoded_once(root, files, 8, "rgb", state).images) == len(files)
    monkeypatch.delattr(os, "posix_fallocate")
    assert len(decoded_once(root, files, 9, "rgb", state).images) == len(files)


def test_what_killed_processes_left_is_removed_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    root, state = class_folders(tmp_path / "pictures", each=2), tmp_path / "state"
    state.mkdir()
    left, lives, other = (
        state / f"images-{'a' * 24}.{mark}.part" for mark in (ended.pid, os.getppid(), "unknown")
    )
    for path in (left, lives, other):
        path.write_bytes(b"x")
    seen: list[bool] = []

    def looked_at(*given: Any) -> Array:
        seen.append((left.exists(), lives.exists(), other.exists()) == (False, True, True))
        return decoded(*given)

    monkeypatch.setattr(image_cache, "decoded", looked_at)
    decoded_once(root, sorted(root.rglob("*.png")), 8, "rgb", state)
    assert seen == [True, True]


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    files = [save(tmp_path / "d/a.png", picture(0, 0))]
    with pytest.raises(TrainerError, match="the decoded images cannot be kept in"):
        decoded_once(tmp_path, files, 8, "rgb", tmp_path / "absent")


def moved_into_parts(root: Path, every: int = 4, of_training: str = "train") -> None:
    """Lay the class folders out anew, in folders of training and test images."""
    for path in sorted(root.glob("*/*")):
        part = "test" if int(path.stem) % every == 0 else of_training
        (root / part / path.parent.name).mkdir(parents=True, exist_ok=True)
        path.rename(root / part / path.parent.name / path.name)
    for name in ("cat", "dog"):
        (root / name).rmdir()


def contents(data: ImageData, side: str) -> set[bytes]:
    return {data.images[row].tobytes() for row in data.sides[side]}


def test_images_that_are_laid_out_anew_keep_their_side_and_a_new_split_is_offered(tmp_path: Path) -> None:
    root = class_folders(tmp_path / "pictures", each=40)
    before = load_images(images(), node(tmp_path))
    moved_into_parts(root)
    save(root / "test" / "cat" / "new.png", picture(7000, 0))
    now = load_images(images(), node(tmp_path))
    assert all(contents(now, side) >= contents(before, side) for side in now.sides)
    assert now.info.rows["test"] == before.info.rows["test"] + 1  # what is new follows its folder
    assert (
        "rows keep the side of the split that they had before their folder or column said another one"
        in now.info.note
    )
    split = tmp_path / ".state" / "split-images.npz"
    assert f"to split all of them anew, stop the node and delete {split}" in now.info.note
    split.unlink()
    anew = load_images(images(), node(tmp_path)).info
    assert anew.rows["test"] == 21
    assert "anew" not in anew.note


def test_folders_that_were_split_may_be_put_together(tmp_path: Path) -> None:
    root = class_folders(tmp_path / "pictures", each=40)
    moved_into_parts(root)
    before = load_images(images(), node(tmp_path))
    assert before.info.note == ""
    for path in sorted(root.glob("t*/*/*")):
        (root / path.parent.name).mkdir(exist_ok=True)
        path.rename(root / path.parent.name / path.name)
    for part in ("train", "test"):
        for name in ("cat", "dog"):
            (root / part / name).rmdir()
        (root / part).rmdir()
    now = load_images(images(), node(tmp_path))
    assert all(contents(now, side) == contents(before, side) for side in now.sides)
    assert "20 rows keep the side of the split" in now.info.note  # those whose folder was that of the test


def test_new_images_in_a_new_layout_are_on_the_side_of_their_folders(tmp_path: Path) -> None:
    root = class_folders(tmp_path / "pictures", each=20)
    load_images(images(), node(tmp_path))
    root.rename(tmp_path / "old")
    for part, first, each in (("train", 100, 30), ("validation", 200, 4), ("test", 300, 6)):
        for channel, name in enumerate(("cat", "dog")):
            for i in range(each):
                save(root / part / name / f"{i}.png", picture(10_000 * channel + first + i, channel))
    for _ in range(2):
        data = load_images(images(), node(tmp_path)).info
        assert data.rows == {"train": 60, "validation": 8, "test": 12}
        assert data.note == ""


def test_a_split_of_training_images_alone_is_extended(tmp_path: Path) -> None:
    root = class_folders(tmp_path / "pictures", each=40)
    moved_into_parts(root)
    first, path = load_images(images(), node(tmp_path)), tmp_path / ".state" / "split-images.npz"
    rows = np.concatenate([first.sides["train"], first.sides["validation"]])
    path.unlink()  # as it was written before sides of folders were remembered
    stored_split(path, first.images[rows], first.labels[rows], {"train": 70, "validation": 10}, 0)
    again = load_images(images(), node(tmp_path))
    assert again.info.rows == first.info.rows
    with np.load(path) as file:
        assert file["names"].tolist() == ["train", "validation", "test"]


def test_an_image_in_two_folders_stays_in_both(tmp_path: Path) -> None:
    for part in ("train", "test"):
        class_folders(tmp_path / "pictures" / part, each=20)  # the same ones
    for _ in range(3):
        data = load_images(images(), node(tmp_path)).info
        assert (data.rows["train"] + data.rows["validation"], data.rows["test"]) == (40, 40)
        assert data.note == ""


def test_where_the_kept_split_leaves_no_test_the_new_one_is_offered(tmp_path: Path) -> None:
    root = class_folders(tmp_path / "pictures", each=40)
    before = load_images(images(), node(tmp_path))
    held_back = contents(before, "test")
    for path in root.glob("*/*"):
        if decoded(path, (8, 8), "rgb").tobytes() in held_back:
            path.unlink()
    moved_into_parts(root)
    with pytest.raises(DataMissing, match=r"0 in test; bring more images, .*; to split all of them anew, stop"):
        load_images(images(), node(tmp_path))


NFC, NFD = "Blüten", unicodedata.normalize("NFD", "Blüten")


def test_a_folder_whose_umlauts_are_two_characters_is_the_class(tmp_path: Path) -> None:
    class_folders(tmp_path / "composed" / "pictures", (NFC, "Obst"))
    class_folders(tmp_path / "apart" / "pictures", (NFD, "Obst"))
    one = load_images(images(classes=[NFC, "Obst"]), node(tmp_path / "composed"))
    other = load_images(images(classes=[NFC, "Obst"]), node(tmp_path / "apart"))
    assert (one.classes, one.info.rows, one.info.checksum) == (other.classes, other.info.rows, other.info.checksum)
    listed = load_images(images(), node(tmp_path / "apart", "found"))
    assert listed.classes == (NFC, "Obst")
    by_toml = load_images(images(classes=[NFD, "Obst"]), node(tmp_path / "composed", "toml"))
    assert by_toml.classes == (NFC, "Obst")


def test_folders_that_differ_in_the_form_of_an_umlaut_only_are_one_class(tmp_path: Path) -> None:
    class_folders(tmp_path / "pictures", (NFC, "Obst"))
    save(tmp_path / "pictures" / NFD / "more.png", picture(9999, 0))
    data = load_images(images(), node(tmp_path))
    assert data.classes == (NFC, "Obst")
    assert np.bincount(data.labels).tolist() == [26, 25]
