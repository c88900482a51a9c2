"""Downloads that were stopped: what came is there again, what a crash spoilt is not, and no disk fills up."""

from __future__ import annotations

import io
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.params.params import Digest
from flnet.store import partial_downloads
from flnet.store.partial_downloads import KEPT, FolderDownloads, MemoryDownloads, PartialDownload, PartialDownloads
from flnet.store.sqlite_store import DiskStore

PART = 100
BODY = random.Random(1).randbytes(4 * PART + 30)
DIGEST = Digest("d" * 64)


@pytest.fixture(params=["folder", "memory"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], PartialDownloads]:
    """What makes the place of downloads, as each start of a node does."""
    memory = MemoryDownloads()
    return (lambda: FolderDownloads(tmp_path / "downloads")) if request.param == "folder" else lambda: memory


def fill(download: PartialDownload, *parts: int) -> None:
    if not download.count:
        download.begin(len(BODY))
    for part in parts:
        first, stop = download.span(part)
        download.add(part, BODY[first:stop])


def whole(download: PartialDownload) -> bytes:
    body = bytearray(len(BODY))
    download.read_into(memoryview(body))
    return bytes(body)


def parts(downloads: PartialDownloads, digest: Digest = DIGEST, part_bytes: int = PART) -> frozenset[int]:
    """What is there of a download that is not in use."""
    download = downloads.open(digest, part_bytes)
    downloads.close(digest, download, is_over=False)
    return download.parts


def test_what_came_is_there_again_and_the_rest_makes_it_whole(make: Callable[[], PartialDownloads]) -> None:
    downloads = make()
    download = downloads.open(DIGEST, PART)
    assert (download.body_bytes, download.count, download.parts) == (None, 0, frozenset())
    fill(download, 3, 0)
    downloads.close(DIGEST, download, is_over=False)
    again = make()
    resumed = again.open(DIGEST, PART)
    assert (resumed.body_bytes, resumed.count, resumed.parts) == (len(BODY), 5, frozenset({0, 3}))
    fill(resumed, 1, 2, 4)
    assert whole(resumed) == BODY
    again.close(DIGEST, resumed, is_over=True)
    assert parts(make()) == set()


def test_one_that_is_in_use_is_not_shared(make: Callable[[], PartialDownloads]) -> None:
    downloads = make()
    first = downloads.open(DIGEST, PART)
    fill(first, 1)
    second = downloads.open(DIGEST, PART)
    assert second.parts == set()
    fill(second, 2)
    downloads.close(DIGEST, second, is_over=True)
    assert first.parts == {1}
    downloads.close(DIGEST, first, is_over=False)
    assert parts(downloads) == {1}


def test_only_the_newest_are_kept(make: Callable[[], PartialDownloads]) -> None:
    digests = [Digest(f"{number}" * 64) for number in range(5)]
    for age, digest in enumerate(digests):
        downloads = make()
        download = downloads.open(digest, PART)
        fill(download, 0)
        downloads.close(digest, download, is_over=False)
        if isinstance(downloads, FolderDownloads):
            os.utime(downloads._path(digest), (age, age + 2**31))  # the next one is newer
    kept = [bool(parts(make(), digest)) for digest in digests[-KEPT:]]
    assert kept == [True] * KEPT
    assert parts(make(), digests[0]) == set()


def test_one_that_nobody_has_gone_on_with_for_a_day_goes(tmp_path: Path) -> None:
    downloads = FolderDownloads(tmp_path)
    download = downloads.open(DIGEST, PART)
    fill(download, 0)
    downloads.close(DIGEST, download, is_over=False)
    (path,) = tmp_path.iterdir()
    os.utime(path, (0, path.stat().st_mtime - 25 * 3600))
    FolderDownloads(tmp_path)
    assert not list(tmp_path.iterdir())


def test_other_parts_than_before_begin_again(tmp_path: Path) -> None:
    downloads = FolderDownloads(tmp_path)
    download = downloads.open(DIGEST, PART)
    fill(download, 0, 1)
    downloads.close(DIGEST, download, is_over=False)
    assert parts(downloads, part_bytes=2 * PART) == set()


@given(st.data())
def test_whatever_a_crash_leaves_the_parts_before_it_are_right_and_the_others_are_not_believed(
    data: st.DataObject,
) -> None:
    order = data.draw(st.permutations(range(5)))
    file = io.BytesIO()
    fill(PartialDownload(file, PART), *order)
    content = bytearray(file.getvalue())
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        del content[at:]
    else:
        content[at] ^= data.draw(st.integers(1, 255))
    download = PartialDownload(io.BytesIO(bytes(content)), PART)
    if download.body_bytes != len(BODY):  # its size is spoilt: nobody serves a body of this size
        return
    assert list(order[: len(download.parts)]) == [part for part in order if part in download.parts]
    missing = set(range(5)) - download.parts
    assert len(missing) >= 1
    fill(download, *missing)
    assert whole(download) == BODY


class Full(io.BytesIO):
    """A disk on which so many bytes have room."""

    room = 3 * PART

    def write(self, data: object) -> int:
        part = bytes(data)[: self.room - len(self.getvalue())]  # type: ignore[call-overload]
        if not part:
            raise OSError(28, "No space left on device")
        return super().write(part)


def test_what_has_no_room_on_the_disk_is_kept_in_memory() -> None:
    file = Full()
    download = PartialDownload(file, PART)
    fill(download, *range(5))
    assert whole(download) == BODY
    assert PartialDownload(io.BytesIO(file.getvalue()), PART).parts == {0, 1}


def test_a_folder_that_cannot_be_made_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    downloads = FolderDownloads(tmp_path / "file" / "downloads")
    download = downloads.open(DIGEST, PART)
    fill(download, *range(5))
    assert whole(download) == BODY
    downloads.close(DIGEST, download, is_over=True)


async def test_the_store_on_disk_keeps_them_beside_the_models(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    download = store.downloads.open(DIGEST, PART)
    fill(download, 0)
    store.downloads.close(DIGEST, download, is_over=False)
    await store.close()
    assert [path.name for path in (tmp_path / "downloads").iterdir()] == [DIGEST + partial_downloads.SUFFIX]
    again = DiskStore(tmp_path)
    assert again.notices() == []
    assert parts(again.downloads) == {0}
    await again.close()
