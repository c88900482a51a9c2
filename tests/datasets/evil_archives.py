"""Archives that nobody should unpack, by name; each breaks one rule."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def zipped(path: Path, *files: tuple[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files:
            archive.writestr(name, data)
    return path


def tarred(path: Path, *files: tuple[str, bytes], **about: Any) -> Path:
    with tarfile.open(path, "w:gz" if path.name.endswith("gz") else "w") as archive:
        for name, data in files:
            entry = tarfile.TarInfo(name)
            entry.size = 0 if about else len(data)
            for key, value in about.items():
                setattr(entry, key, value)
            archive.addfile(entry, io.BytesIO(data))
    return path


def zipped_on_unix(path: Path, *files: tuple[str, bytes], encoding: str = "utf-8") -> Path:
    """As `zip` of Linux makes it: names are the bytes that they are on the disk, without the flag of UTF-8."""
    names = [name.encode(encoding) for name, _ in files]
    stand_ins = [f"{place:03}".ljust(len(name), "_") for place, name in enumerate(names)]
    zipped(path, *((other, data) for other, (_, data) in zip(stand_ins, files, strict=True)))
    packed = path.read_bytes()
    for other, name in zip(stand_ins, names, strict=True):
        packed = packed.replace(other.encode(), name)
    path.write_bytes(packed)
    return path


def zip_link(folder: Path, kind: int = stat.S_IFLNK) -> Path:
    entry = zipfile.ZipInfo("x")
    entry.external_attr = (kind | 0o777) << 16
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        archive.writestr(entry, "/etc/passwd")
    return folder / "a.zip"


def link_then_through(folder: Path) -> Path:
    """A link out of the folder, and then a file through it."""
    with tarfile.open(folder / "a.tar", "w") as archive:
        link = tarfile.TarInfo("out")
        link.type, link.linkname = tarfile.SYMTYPE, "/tmp"
        archive.addfile(link)
        through = tarfile.TarInfo("out/evil")
        through.size = 1
        archive.addfile(through, io.BytesIO(b"x"))
    return folder / "a.tar"


def nested(folder: Path) -> Path:
    inner = zipped(folder / "inner.zip", ("zeros", bytes(100_000))).read_bytes()
    return zipped(folder / "a.zip", ("inner.zip", inner))


def cut(folder: Path) -> Path:
    whole = zipped(folder / "a.zip", ("x", bytes(range(256)) * 100))
    whole.write_bytes(whole.read_bytes()[:-40])
    return whole


def wrong_sum(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:  # as they are, so that a byte can be changed
        archive.writestr("x", b"as it was")
    (folder / "a.zip").write_bytes((folder / "a.zip").read_bytes().replace(b"as it was", b"as it is."))
    return folder / "a.zip"


def deep(folder: Path) -> Path:
    return zipped(folder / "a.zip", ("a/" * 60 + "x", b"x"))


def flagged_and_not(folder: Path) -> Path:
    """The same name twice: once with the flag of UTF-8, once without it."""
    path = zipped(folder / "a.zip", ("bl__ten/1", b"1"), ("blüten/1", b"2"))
    path.write_bytes(path.read_bytes().replace(b"bl__ten/1", "blüten/1".encode()))
    return path


OK = ("good", b"good")
EVIL: Mapping[str, tuple[Callable[[Path], Path], str]] = {
    "up in a zip": (lambda f: zipped(f / "a.zip", OK, ("../evil", b"x")), "leads out of its folder"),
    "up in a tar": (lambda f: tarred(f / "a.tar", OK, ("a/../../evil", b"x")), "leads out of its folder"),
    "absolute in a zip": (lambda f: zipped(f / "a.zip", ("/tmp/evil", b"x")), "leads out of its folder"),
    "absolute in a tar": (lambda f: tarred(f / "a.tar.gz", ("/tmp/evil", b"x")), "leads out of its folder"),
    "a drive": (lambda f: zipped(f / "a.zip", ("C:evil", b"x")), "leads out of its folder"),
    "backslashes": (lambda f: tarred(f / "a.tar", ("..\\evil", b"x")), "leads out of its folder"),
    "a link in a zip": (zip_link, "is a link or a device"),
    "a device in a zip": (lambda f: zip_link(f, stat.S_IFCHR), "is a link or a device"),
    "a soft link": (lambda f: tarred(f / "a.tar", ("x", b""), type=tarfile.SYMTYPE, linkname="/"), "is a link"),
    "a hard link": (lambda f: tarred(f / "a.tar", ("x", b""), type=tarfile.LNKTYPE, linkname="/"), "is a link"),
    "a device": (lambda f: tarred(f / "a.tar", ("x", b""), type=tarfile.BLKTYPE), "is a link or a device"),
    "a pipe": (lambda f: tarred(f / "a.tar", ("x", b""), type=tarfile.FIFOTYPE), "is a link or a device"),
    "through a link": (link_then_through, "is a link or a device"),
    "an archive inside": (nested, "is an archive itself"),
    "a file that is a folder too": (lambda f: zipped(f / "a.zip", ("x", b"1"), ("x/y", b"2")), "File exists"),
    "names twice": (lambda f: tarred(f / "a.tar", ("x", b"1"), ("x", b"2")), "File exists"),
    "signs that hide": (lambda f: zipped(f / "a.zip", ("cat\u202egnp.exe", b"x")), "cannot be seen"),
    "too deep": (deep, "folders deep"),
    "up in a name without flag": (
        lambda f: zipped_on_unix(f / "a.zip", ("../bösé", b"x")),
        "leads out of its folder",
    ),
    "signs that hide without flag": (
        lambda f: zipped_on_unix(f / "a.zip", ("ä\u202egnp.exe", b"x")),
        "cannot be seen",
    ),
    "names twice without flag": (flagged_and_not, "File exists"),
    "a long name": (lambda f: zipped(f / "a.zip", ("n" * 300, b"x")), "more than 255 bytes"),
    "cut": (cut, "cannot be unpacked"),
    "a wrong checksum": (wrong_sum, "cannot be"),
    "no files": (lambda f: zipped(f / "a.zip", ("__MACOSX/x", b"x")), "holds no files"),
}
