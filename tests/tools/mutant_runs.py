"""Runs tests against one mutant in a copy of the working tree, and says which test notices it.

A copy has its own light virtual environment: the libraries are those of the interpreter that runs this, `flnet` is
the copy's. Children that tests start therefore run the mutant too.
"""

from __future__ import annotations

import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

TEST_SECONDS = 60  # for one test; a mutant may wait for ever
SILENT_SECONDS = 2 * TEST_SECONDS + 30  # without any output: the test does not even heed its time limit
OPTIONS = ("-x", "-v", "-n", "0", "-p", "no:cacheprovider", "--tb=line", "--timeout", str(TEST_SECONDS))
ENDED = re.compile(r"^(tests/.*?) (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b")
STARTED = re.compile(r"^(tests/\S+::.*?)(?: (?:PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b.*)?$")
BROKEN = re.compile(
    r"^ERROR (?:collecting )?(tests/\S+)|ImportError while loading conftest '([^']+)'", re.MULTILINE
)
UNKNOWN = re.compile(r"^ERROR: not found: (\S.*)$", re.M)
USAGE_ERROR, NO_TESTS = 4, 5  # of pytest
COMMAND = """#!{python}
import sys
from flnet.__main__ import main
sys.exit(main())
"""


@dataclass(frozen=True)
class Outcome:
    """What a run of tests gave.

    Attributes:
        test: the one that failed, if any.
        kind: "failed", "import" (a file of tests could not be imported), "hung", "passed", "too slow" (the bound
            ended it before any test failed), "no tests".
        passed: the tests that ended well.
    """

    kind: str
    test: str = ""
    passed: tuple[str, ...] = ()

    @property
    def is_kill(self) -> bool:
        """Whether a test noticed the mutant."""
        return self.kind in ("failed", "import", "hung")


class Copy:
    """A copy of a working tree in which one mutant at a time is planted."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.folder = root, folder
        self._times = 0
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        listed = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        for name in subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split("\0"):
            if name and (root / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, folder / name)
        if (root.parent / "shared").is_dir() and not (folder.parent / "shared").exists():
            (folder.parent / "shared").symlink_to((root.parent / "shared").resolve())
        self.python = self._environment()

    def _environment(self) -> Path:
        made = self.folder / ".venv"
        venv.create(made, with_pip=False, symlinks=True)
        site = next((made / "lib").glob("python*/site-packages"))
        named = site / "named"  # packages whose folder has another name
        named.mkdir()
        (named / "flnet_trainers").symlink_to(self.folder / "trainers")
        (named / "flnet_resources").symlink_to(self.folder / "resources")
        libraries = [path for path in sys.path if path.endswith("site-packages")]
        (site / "copy.pth").write_text("\n".join([str(self.folder), str(named), *libraries]) + "\n")
        python = made / "bin" / "python"
        (made / "bin" / "flnet").write_text(COMMAND.format(python=python))
        (made / "bin" / "flnet").chmod(0o755)
        where = [str(python), "-c", "import flnet; print(flnet.__path__[0])"]
        imported = subprocess.run(where, check=True, capture_output=True, text=True, cwd="/").stdout.strip()
        if Path(imported).resolve() != (self.folder / "flnet").resolve():
            raise RuntimeError(f"the copy in {self.folder} imports {imported}")
        return python

    @contextmanager
    def planted(self, path: str, text: str) -> Iterator[None]:
        """This file has this text until the block ends.

        Each time the file gets another modification time, because byte code of the old text counts as current if
        size and time are the same.
        """
        file = self.folder / path
        old, status = file.read_text("utf-8"), file.stat()
        self._times += 1
        try:
            file.write_text(text, "utf-8")
            os.utime(file, (status.st_atime, int(status.st_mtime) + 10 * self._times))
            yield
        finally:
            file.write_text(old, "utf-8")
            os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))

    def run(self, tests: Sequence[str], bound: float, without: Iterable[str] = ()) -> Outcome:
        """Run tests until one fails.

        Args:
            tests: files, folders or node ids; those that do not exist are left out.
            bound: seconds for all of them.
            without: node ids to leave out.
        """
        there = [test for test in tests if (self.folder / test.partition("::")[0]).exists()]
        deselected = [f"--deselect={test}" for test in without]
        while there:
            output, ended, code = self._watch([*OPTIONS, *deselected, *there], bound)
            unknown = tuple(UNKNOWN.findall(output)) if code == USAGE_ERROR else ()
            if not unknown:
                return _judged(output, ended, code)
            there = [test for test in there if not any(line.endswith(test) for line in unknown)]
        return Outcome("no tests")

    def _watch(self, arguments: Sequence[str], bound: float) -> tuple[str, str, int]:
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "OMP_NUM_THREADS": "1", "COLUMNS": "400"}
        for name in ("PYTHONPATH", "VIRTUAL_ENV"):
            environment.pop(name, None)
        process = subprocess.Popen(
            [str(self.python), "-m", "pytest", *arguments],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, ended = _read(process, bound)
        finally:
            _end(process)
        return output, ended, process.returncode


def _read(process: subprocess.Popen[bytes], bound: float) -> tuple[str, str]:
    """The output, and why it ended: "itself", "bound", "silence"."""
    assert process.stdout is not None
    output, until = bytearray(), time.monotonic() + bound
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while (left := until - time.monotonic()) > 0:
            if not selector.select(min(left, SILENT_SECONDS)):
                return output.decode(errors="replace"), "silence" if left > SILENT_SECONDS else "bound"
            if not (part := os.read(process.stdout.fileno(), 65536)):
                process.wait()
                return output.decode(errors="replace"), "itself"
            output += part
    return output.decode(errors="replace"), "bound"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a run and whatever its tests have started and left."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _judged(output: str, ended: str, code: int) -> Outcome:
    """What the output of pytest means."""
    lines = output.splitlines()
    results = [match.groups() for line in lines if (match := ENDED.match(line))]
    passed = tuple(test for test, result in results if result not in ("FAILED", "ERROR"))
    failed = [test for test, result in results if result in ("FAILED", "ERROR")]
    if failed:
        return Outcome("failed", failed[0], passed)
    running = [match[1].strip() for line in lines if (match := STARTED.match(line))]
    if ended == "silence":
        return Outcome("hung", running[-1] if running else "", passed)
    if ended == "bound":
        return Outcome("too slow", running[-1] if running else "", passed)
    if code == 0:
        return Outcome("passed", "", passed)
    if broken := BROKEN.search(output):
        return Outcome("import", broken[1] or broken[2], passed)
    if code == NO_TESTS:
        return Outcome("no tests", "", passed)
    if code not in (1, 2, USAGE_ERROR) and running:  # the mutant ended the process itself
        return Outcome("failed", running[-1], passed)
    raise RuntimeError(f"pytest ended with {code}:\n" + "\n".join(lines[-30:]))
