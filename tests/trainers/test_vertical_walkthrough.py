"""docs/vertical-walkthrough.md is true: its files and commands work as they stand, to the deleted state folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from babel.messages.pofile import read_po

from tests.cli.live import until
from tests.ports import free_port
from tests.test_layout import ROOT

TEXT = (ROOT / "docs" / "vertical-walkthrough.md").read_text("utf-8")
SIDES = {"bank": "4000", "insurer": "4001"}  # with the ports that the document gives them


def blocks(kind: str) -> list[tuple[str, str]]:
    """What stands below the marks of a kind: the rest of each mark, and the block."""
    return re.findall(rf"<!-- {kind}:?(\S*) -->\n```\w+\n(.*?)```", TEXT, re.DOTALL)


class Walk:
    """A folder in which a person follows the document; ports are free ones, as 4000 may be taken.

    Attributes:
        words: the six words of each side's key.
    """

    def __init__(self, folder: Path) -> None:
        port = free_port()
        self.folder, self.ports = folder, {"bank": str(port), "insurer": str(port + 1)}
        self.words: dict[str, str] = {}

    def here(self, words: str) -> str:
        """With the ports of this run."""
        for side, port in SIDES.items():
            words = re.sub(rf"\b{port}\b", self.ports[side], words)
        return words

    def environment(self, side: str) -> dict[str, str]:
        """Nothing from outside; only the bank's default port is another one."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("FLNET_")}
        light = {"HOME": str(self.folder), "TMPDIR": str(self.folder), "FLNET_COMPUTE": "thread"}
        return clean | light | ({"FLNET_NODE_PORT": self.ports["bank"]} if side == "bank" else {})

    def command(self, side: str, line: str) -> subprocess.CompletedProcess[str]:
        """Run a line in the folder of a side."""
        flnet = f'"{sys.executable}" -m flnet '
        line = re.sub(r"^flnet ", lambda _: flnet, self.here(line))
        for other, words in self.words.items():
            line = line.replace(f"the six words of the {other}", words)
        return subprocess.run(
            ["/bin/sh", "-c", line],
            cwd=self.folder / side,
            env=self.environment(side),
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    @contextmanager
    def node(self, side: str) -> Iterator[Path]:
        """A side's node; yields its log."""
        log = self.folder / f"{side}.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "flnet", "run"],
                cwd=self.folder / side,
                env=self.environment(side),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            until(
                lambda: "LOANS is ready" in log.read_text() or process.poll() is not None,
                f"the node of the {side}",
            )
            assert process.poll() is None, log.read_text()
            yield log
        finally:
            process.terminate()
            process.wait(30)


@pytest.fixture
def walk(tmp_path: Path) -> Walk:
    """The files of the document."""
    walk, files = Walk(tmp_path), dict(blocks("file"))
    (tmp_path / "example.py").write_text(files.pop("example.py"), "utf-8")
    subprocess.run([sys.executable, "example.py"], cwd=tmp_path, check=True)
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(walk.here(content), "utf-8")
    return walk


def shape(line: str) -> str:
    """A line without its figures."""
    return re.sub(r"\d[\d.,]*", "0", " ".join(line.split()))


def check(walk: Walk, side: str, block: str) -> None:
    """The command of a block prints each line that stands below it, with any figures."""
    first, *expected = block.splitlines()
    done = walk.command(side, first.removeprefix("$ "))
    assert done.returncode == 0, done.stdout + done.stderr
    shown = {shape(line) for line in (done.stdout + done.stderr).splitlines()}
    for line in expected:
        assert shape(line) in shown, (line, done.stdout)


def test_the_files_begin_as_the_document_says(walk: Walk) -> None:
    for name, head in blocks("head"):
        lines = (walk.folder / name).read_text("utf-8").splitlines()
        assert lines[:4] == head.splitlines()
        assert f"`{name}` has {len(lines) - 1:,} rows" in TEXT


@pytest.mark.long
def test_two_sides_that_follow_the_document_train_together(walk: Walk) -> None:
    pytest.importorskip("nacl", reason="PyNaCl is not installed (the extra `vertical`)")
    runs = blocks("run")
    assert len(runs) >= 3
    check(walk, *runs.pop(0))
    with ExitStack() as stack:
        logs = {side: stack.enter_context(walk.node(side)) for side in SIDES}
        for side, log in logs.items():
            words = re.search(r"in words +(\S+)", log.read_text())
            assert words is not None
            walk.words[side] = words[1]
        for mark in ("pair:bank", "pair:insurer"):
            [(_, block)] = blocks(mark)
            until(lambda side=mark[5:], block=block: _works(walk, side, block), "both nodes wait")  # type: ignore[misc]
        until(lambda: "1 of 1 peers alive" in walk.command("bank", "flnet status").stdout, "the mesh")
        for side, block in runs:
            check(walk, side, block)
        assert walk.command("bank", "flnet doctor").returncode == 0
        stop = re.search(r"`(curl .*/stop)`", TEXT)
        assert stop is not None
        if shutil.which("curl"):
            assert '"trainer_id":"LOANS"' in walk.command("bank", stop[1]).stdout
        forget = re.search(r"`(flnet pair --forget .*?)`", TEXT)
        assert forget is not None
        assert walk.command("bank", forget[1]).returncode == 0
    [(_, delete)] = blocks("delete")
    state = walk.folder / ".flnet" / f"node-{walk.ports['bank']}"
    assert state.is_dir()
    assert walk.command("bank", delete).returncode == 0
    assert not state.exists()


def _works(walk: Walk, side: str, block: str) -> bool:
    first, expected = block.splitlines()
    done = walk.command(side, first.removeprefix("$ "))
    return done.returncode == 0 and expected in done.stdout


def test_each_refusal_of_the_document_is_one_that_flnet_says() -> None:
    with (ROOT / "flnet" / "web" / "locale" / "es" / "LC_MESSAGES" / "flnet.po").open("rb") as file:
        templates = [str(message.id) for message in read_po(file) if message.id]
    said = [
        re.sub(r"\\\{\w+\\\}", "(.+)", re.escape(template))
        for template in templates
        if len(re.sub(r"{\w+}", "", template)) > 15  # words of its own
    ]
    table = TEXT.partition("## When something is refused")[2].partition("\n## ")[0]
    messages = re.findall(r"^\| `(.+?)` \|", table, re.MULTILINE)
    assert len(messages) > 15
    for message in messages:
        whole, _, reason = message.rpartition(" ids ")  # of which flnet puts the reason behind the number
        assert any(
            re.fullmatch(pattern, part) for pattern in said for part in (message, reason if whole else "")
        ), message
