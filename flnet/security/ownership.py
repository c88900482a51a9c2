"""Who could replace the files that a node trusts: its state folder, its keys, and the operator's token.

A secret is as safe as its place. Whoever owns a folder on the way to a file, or may write there, can put another file
under its name. So every folder and link that a path goes through must belong to root or to the user of this process,
and nobody else may write there. A folder with the sticky bit, such as /tmp, is fine: others may not rename what is not
theirs. Systems without owners and modes (Windows) are not checked.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from flnet.errors import StartError
from flnet.settings import PREFIX

ROOT = 0
MOST_LINKS = 40  # on one path, as in Linux
ALL_USERS = ["0", "0", "4294967295"]  # in /proc/self/uid_map, outside of containers with users of their own


def check_folder(folder: Path) -> None:
    """Check that only this user and root can replace the state folder and the files in it. It may be missing.

    Raises:
        StartError: another user can; says who, and what to do.
        OSError: it cannot be read.
    """
    if not hasattr(os, "geteuid"):
        return
    advice = f"set {PREFIX}STATE_PATH to a folder that only the user of this node can replace"
    _check_way(folder, advice)
    if not folder.is_dir():
        return
    if (owner := folder.stat().st_uid) != os.geteuid():
        raise StartError(
            f"the state folder {folder} belongs to {_name(owner)}, and this node runs as {_name(os.geteuid())}: "
            f"{advice}, or give it to that user: chown -R {os.geteuid()} {folder}"
        )
    with os.scandir(folder) as entries:
        owners = {entry.path: entry.stat(follow_symlinks=False).st_uid for entry in entries}
    for path, owner in sorted(owners.items()):
        if owner not in _trusted():
            raise StartError(
                f"{path} in the state folder belongs to {_name(owner)}, who can change it: remove it, or give it to "
                f"the user of this node: chown {os.geteuid()} {path}"
            )


def check_file(file: Path, setting: str) -> None:
    """Check that only this user and root can change or replace a file with a secret. It may be missing.

    A file that is a mount of its own, as the secrets of containers are, may have any owner: root put it there.

    Args:
        setting: the name of the setting that names it, without the prefix.

    Raises:
        StartError: another user can; says who, and what to do.
        OSError: it cannot be read.
    """
    if not hasattr(os, "geteuid"):
        return
    setting = f"{PREFIX}{setting}"
    _check_way(file, f"set {setting} to a file that only the user of this node can replace")
    if not file.exists():
        return
    status = file.stat()
    if status.st_uid not in _trusted() and not os.path.ismount(file):
        raise StartError(
            f"{file} of {setting} belongs to {_name(status.st_uid)}, and this node runs as {_name(os.geteuid())}: "
            f"name a file of this user or of root, or run: chown {os.geteuid()} {file}"
        )
    if _is_open(status):
        raise StartError(f"others can change {file} of {setting} (mode {_mode(status)}): chmod go-w {file}")


def foreign_owner(file: Path) -> str:
    """Another user who can change what is in this file; empty if only this user and root can.

    Raises:
        OSError: it cannot be read.
    """
    status = file.stat() if hasattr(os, "geteuid") else None
    if status is None or os.path.ismount(file):
        return ""
    if status.st_uid not in _trusted():
        return _name(status.st_uid)
    return "every user" if status.st_mode & stat.S_IWOTH else ""


def _check_way(path: Path, advice: str) -> None:
    for at, status in _way(path):
        if status.st_uid not in _trusted() and not _is_hidden(status.st_uid):
            raise StartError(f"{path} leads through {at}, which belongs to {_name(status.st_uid)}: {advice}")
        if stat.S_ISDIR(status.st_mode) and _is_open(status) and not status.st_mode & stat.S_ISVTX:
            raise StartError(
                f"others can write to {at} (mode {_mode(status)}), and so replace {path}: chmod go-w {at}, or "
                f"{advice}"
            )


def _way(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Each folder and link through which the path leads, as far as they exist; not the file or folder it leads to."""
    at, rest, links = Path("/"), [*path.absolute().parts[1:]], 0
    yield at, at.lstat()
    while rest:
        if (part := rest.pop(0)) == "..":
            at = at.parent
            continue
        try:
            status = (at / part).lstat()
        except (FileNotFoundError, NotADirectoryError):
            return
        is_link = stat.S_ISLNK(status.st_mode)
        if is_link or rest:
            yield at / part, status
        if not is_link:
            at /= part
            continue
        if (links := links + 1) > MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        target = (at / part).readlink()
        rest = [*target.parts[target.is_absolute() :], *rest]
        at = Path("/") if target.is_absolute() else at


def _trusted() -> frozenset[int]:
    return frozenset({ROOT, os.geteuid()})


def _is_open(status: os.stat_result) -> bool:
    """Whether others than the owner can write. A group that this user has alone does not count."""
    if status.st_mode & stat.S_IWOTH:
        return True
    return bool(status.st_mode & stat.S_IWGRP) and not _is_private(status.st_gid)


def _is_private(group: int) -> bool:
    """Whether a group is made for this user alone: by its name, or in a container, where numbers have no names."""
    import grp  # noqa: PLC0415 - not on every system
    import pwd  # noqa: PLC0415

    names = {"root"}
    with contextlib.suppress(KeyError):
        names.add(pwd.getpwuid(os.geteuid()).pw_name)
    try:
        entry = grp.getgrgid(group)
    except KeyError:
        return group in {os.getegid(), *os.getgroups()}
    return (group == ROOT or entry.gr_name in names) and names.issuperset(entry.gr_mem)


def _is_hidden(user: int) -> bool:
    """Whether this number stands for users outside of a container, who have no number in it."""
    try:
        hidden = int(Path("/proc/sys/kernel/overflowuid").read_text("ascii"))
        users = Path("/proc/self/uid_map").read_text("ascii").split()
    except (OSError, ValueError):
        return False
    return user == hidden and users != ALL_USERS


def _mode(status: os.stat_result) -> str:
    return f"{stat.S_IMODE(status.st_mode):o}"


def _name(user: int) -> str:
    import pwd  # noqa: PLC0415 - not on every system

    try:
        return f"the user {pwd.getpwuid(user).pw_name}"
    except KeyError:
        return f"the user {user}"
