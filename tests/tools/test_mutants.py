"""Mutants: where a small fault can be planted, and how it is found again in code that has moved."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.mutant_places import NotFound, Place, Tree

OLD = """
class Gate:
    def admit(self, caller: str, number: int) -> bool:
        if number >= self.most and caller not in self.known:
            return False  # too many
        self.known.add(caller)
        self.note(caller, number)
        return True
"""


def tree(folder: Path, **modules: str) -> Tree:
    (folder / "flnet").mkdir()
    for name, text in modules.items():
        (folder / "flnet" / f"{name}.py").write_text(text)
    return Tree(folder)


def found(tree: Tree, before: str, function: str = "Gate.admit", unique: bool = True) -> Place:
    return tree.find("flnet/gate.py", function, before, 0, unique)


def test_a_place_is_found_in_a_moved_class_and_with_other_line_breaks(tmp_path: Path) -> None:
    moved = OLD.replace("(caller, number)", "(\n            caller,  # who\n            number,\n        )")
    place = found(tree(tmp_path, admission=moved), "self.note(caller, number)")
    assert (place.module.path, place.how) == ("flnet/admission.py", "same name")
    assert "        self.note(number, caller)\n" in place.planted("self.note(number, caller)  # who")


def test_lines_that_stood_once_are_found_under_another_name(tmp_path: Path) -> None:
    there = tree(tmp_path, admission=OLD.replace("admit", "check_caller"))
    assert found(there, "self.known.add(caller)").how == "same lines"
    with pytest.raises(NotFound, match="do not exist"):
        found(there, "self.known.add(caller)", unique=False)


def test_a_place_that_two_functions_could_be_is_none(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"in flnet/a\.py, flnet/b\.py"):
        found(tree(tmp_path, a=OLD, b=OLD), "self.known.add(caller)")


def test_code_that_was_rewritten_is_not_found_and_its_likes_are_named(tmp_path: Path) -> None:
    there = tree(tmp_path, gate=OLD.replace("self.known.add(caller)", "self.callers.add(caller)"))
    with pytest.raises(NotFound):
        found(there, "self.known.add(caller)")
    assert next(there.alike("self.known.add(caller)")) == "flnet/gate.py:6: self.callers.add(caller)"
