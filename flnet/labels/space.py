"""Label spaces: by which classes a node labels its rows."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from flnet.names import check_name
from flnet.refusals import LabelsRefused

MAX_CLASSES = 1000  # in one space; the largest data sets in common use have as many
MAX_CLASS_NAME = 200  # characters


@dataclass(frozen=True)
class LabelSpace:
    """A list of classes, of which each row has one; made once and named, so that nodes can say which one they use.

    Attributes:
        id: its name, 1 to 64 printable characters.
        classes: their names, in the order of their numbers; label 0 is the first one.
    """

    id: str
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        try:
            check_name(self.id)
        except ValueError as exc:
            raise LabelsRefused(f"the id of a label space {exc}") from exc
        if not 1 <= len(self.classes) <= MAX_CLASSES:
            raise LabelsRefused(
                f"the label space {self.id!r} has {len(self.classes)} classes; expected 1 to {MAX_CLASSES}"
            )
        for name in self.classes:
            if not is_class_name(name):
                raise LabelsRefused(
                    f"{name[:40]!r} is no name for a class: expected 1 to {MAX_CLASS_NAME} printable characters, "
                    "without space around them"
                )
        if len(set(self.classes)) < len(self.classes):
            twice = next(name for name in self.classes if self.classes.count(name) > 1)
            raise LabelsRefused(f"the label space {self.id!r} has the class {twice!r} twice")

    def __len__(self) -> int:
        return len(self.classes)

    def number(self, name: str) -> int | None:
        """The label of the class of this name; None if there is none."""
        return self.classes.index(name) if name in self.classes else None

    @property
    def digest(self) -> str:
        """SHA-256 over the classes in their order, as 64 hex digits; two spaces of one id may still differ."""
        return hashlib.sha256("\n".join(self.classes).encode()).hexdigest()

    def view(self) -> dict[str, Any]:
        """As JSON-ready data; `read_space` reads it."""
        return {"id": self.id, "classes": list(self.classes)}


def is_class_name(name: str) -> bool:
    """Whether a class may be called so."""
    return 1 <= len(name) <= MAX_CLASS_NAME and name.isprintable() and name == name.strip()


def read_space(fields: Any) -> LabelSpace:
    """A label space from what `LabelSpace.view` made of it, as a peer may send it.

    Raises:
        LabelsRefused: it is none.
    """
    if not isinstance(fields, dict) or fields.keys() != {"id", "classes"} or not isinstance(fields["id"], str):
        raise LabelsRefused('a label space is an object of "id", a text, and "classes", a list')
    classes = fields["classes"]
    if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
        raise LabelsRefused(f"the classes of the label space {fields['id'][:40]!r} are no list of texts")
    return LabelSpace(fields["id"], tuple(classes))
