"""Chooses the tests that can notice a mutant, runs them from near to far, and makes sure of what failed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.tools.mutant_runs import Copy, Outcome

SHAKY = re.compile(r"^tests/(node|web|threats|cli|wire|processes|hosts|experiments|compute)/")
CHUNK = 400  # tests of one process


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant: "killed", "survived", "not found" or "error"."""

    kind: str
    test: str = ""
    words: str = ""

    @property
    def is_kill(self) -> bool:
        """Whether a test noticed it."""
        return self.kind == "killed"

    def __str__(self) -> str:
        return " ".join(
            filter(None, (self.kind, self.test and f"by {self.test}", self.words and f"({self.words})"))
        )


def _function_of(test: str) -> str:
    """A test without its parameters."""
    return test.partition("[")[0]


class Judge:
    """Runs tests against mutants in one copy of the tree.

    Args:
        tests: files and folders, for mutants that no near test notices.
        near: seconds for the near tests.
        wide: seconds for each chunk of the others; 0 leaves these out.
    """

    def __init__(self, copy: Copy, tests: Sequence[str], near: float, wide: float) -> None:
        self._copy, self._tests, self._near, self._wide = copy, [t.rstrip("/") for t in tests], near, wide
        self._sound: dict[str, bool] = {}  # whether a test passes without any mutant

    def judge(self, mutant: dict[str, Any], text: str) -> Verdict:
        """Look for a test that fails when this file of the mutant has this text."""
        near = [*filter(None, [mutant["by"]]), *self._files_of(mutant["path"])]
        wide = [test for test in self._tests if test not in near]
        if not near and not wide:
            return Verdict("survived", "", "no test runs it")
        passed, doubtful = 0, set[str]()
        chunks = [(near, self._near)]
        if self._wide:
            chunks += [(wide[at : at + CHUNK], self._wide) for at in range(0, len(wide), CHUNK)]
        while chunks:
            tests, bound = chunks.pop(0)
            if not tests:
                continue
            outcome = self._until_sure(mutant, text, tests, bound, doubtful)
            passed += len(outcome.passed)
            if outcome.is_kill:
                return Verdict("killed", outcome.test, "" if outcome.kind == "failed" else outcome.kind)
            if outcome.kind == "too slow" and bound < self._wide and outcome.passed:
                done = set(map(_function_of, outcome.passed))
                chunks.append(([test for test in tests if test not in done], self._wide))
            elif outcome.kind == "too slow":
                doubtful.add(f"not all tests in {bound:g} s")
        return Verdict("survived", "", "; ".join([f"{passed} tests", *sorted(doubtful)]))

    def _files_of(self, path: str) -> list[str]:
        """The test files of a module, by their name."""
        stem, folder = Path(path).stem, Path(path).parent.name
        files = (self._copy.root / "tests").rglob(f"test_{stem}.py")
        ranked = sorted(files, key=lambda file: file.parent.name != folder)
        return [file.relative_to(self._copy.root).as_posix() for file in ranked]

    def _until_sure(
        self, mutant: dict[str, Any], text: str, tests: Sequence[str], bound: float, doubtful: set[str]
    ) -> Outcome:
        """Run tests; one that fails without the mutant too, or not twice, does not count."""
        without: set[str] = set()
        while True:
            with self._copy.planted(mutant["path"], text):
                outcome = self._copy.run(tests, bound, without)
            if not outcome.is_kill or outcome.kind == "import" or not outcome.test:
                return outcome
            if outcome.test in without:  # its id does not deselect it
                return Outcome("passed", "", outcome.passed)
            if self._is_sound(outcome.test):
                if outcome.kind == "failed" and not SHAKY.search(outcome.test):
                    return outcome
                with self._copy.planted(mutant["path"], text):
                    if self._copy.run([outcome.test], bound).is_kill:
                        return outcome
                doubtful.add(f"once noticed by {outcome.test}")
            without.add(outcome.test)

    def _is_sound(self, test: str) -> bool:
        if test not in self._sound:
            self._sound[test] = any(self._copy.run([test], self._near).kind == "passed" for _ in range(2))
        return self._sound[test]
