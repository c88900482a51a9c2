"""What `flnet data` shows: each trainer's data, asked in the child that trains, and what a check found."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flnet.cli.text import counted, printable
from flnet.errors import FlnetError
from flnet.params import TrainerId
from flnet.settings import Settings
from flnet.training.loader import find_trainers
from flnet.training.pool import make_pool
from flnet.training.soundness import Finding

__all__ = ["check_lines", "data_lines", "data_views", "size_of"]

View = dict[str, Any]
_MOST_CLASSES = 12  # of which the counts are shown; JSON has them all


def data_views(settings: Settings, telling: Callable[[str], None] = lambda trainer: None) -> Iterator[View]:
    """What each trainer says of its data, one after the other; `missing` says why it has none.

    Args:
        settings: of a node; its state folder is written to.
        telling: told whom is asked next.
    """
    pool = make_pool(settings)
    with asyncio.Runner() as runner:
        try:
            for file in find_trainers(settings):
                telling(file.id)
                yield runner.run(_view(pool, file.id, settings))
        finally:
            runner.run(pool.close())


async def _view(pool: Any, trainer: str, settings: Settings) -> View:
    try:
        declaration, _ = await pool.prepare(TrainerId(trainer))
    except FlnetError as exc:
        return {"trainer": trainer, "missing": exc.message}
    data = dict(declaration.data)
    return {
        "trainer": trainer,
        "missing": "",
        "label": declaration.label,
        **data,
        "counts": dict(declaration.offers.get("counts") or {}),
        "checksum": declaration.offers.get("checksum") or "",
        "bytes": size_of(str(data.get("source", "")), settings.datasets_path),
    }


def size_of(source: str, datasets: Path | None) -> int | None:
    """Bytes on disk of what these words name at their end; None where that cannot be told."""
    start = -1 if datasets is None else source.find(str(datasets))
    place = Path(source[start if start >= 0 else source.find("/") :])
    if not source or place == datasets or not place.exists():
        return None
    files = [place] if place.is_file() else [path for path in place.rglob("*") if path.is_file()]
    return sum(path.stat().st_size for path in files)


def data_lines(view: Mapping[str, Any]) -> list[str]:
    """One trainer's data in lines for people."""
    name = printable(view["trainer"])
    if view["missing"]:
        return [f"{name}: no data", f"    {printable(view['missing'])}", ""]
    size = "" if view.get("bytes") is None else f" ({view['bytes'] / 1e6:,.1f} MB)"
    kind = "sample data: " if view.get("sample") else ""
    lines = [f"{name}: {kind}{printable(view['source'])}{size}"]
    classes, counts = view.get("classes", ()), view.get("counts", {})
    for side, rows in view.get("rows", {}).items():
        lines.append(f"    {printable(side):<12}{rows:>9,} rows{_per_class(classes, counts.get(side, ()))}")
    if view.get("checksum"):
        lines.append(f"    checksum of these rows {printable(view['checksum'])[:16]}")
    if view.get("note"):
        lines.append(f"    {printable(view['note'])}")
    return [*lines, ""]


def _per_class(classes: Sequence[str], counts: Sequence[int]) -> str:
    pairs = [f"{printable(name)}: {n:,}" for name, n in zip(classes, counts, strict=False)]
    more = f"; and {len(pairs) - _MOST_CLASSES} more" if len(pairs) > _MOST_CLASSES else ""
    return f"   {'; '.join(pairs[:_MOST_CLASSES])}{more}" if pairs else ""


def check_lines(folder: Path, findings: Sequence[Finding], missing: Mapping[str, Sequence[str]]) -> list[str]:
    """What a check found in lines for people: counts, and every file with a fault by its name."""
    kinds: Counter[tuple[str, str]] = Counter()
    lines = []
    for finding in findings:
        place = finding.path.relative_to(folder)
        state = "damaged" if finding.fault else "whole" if finding.right else "not looked at"
        kinds[str(place.parent), state] += 1
        if finding.fault:
            lines.append(f"{printable(finding.path)}: {printable(finding.fault)}")
        elif finding.right and len(place.parts) == 1:
            lines.append(f"{printable(finding.path)}: whole, {printable(finding.right)}")
    for where, names in missing.items():
        lines.append(f"{printable(where)}: {', '.join(names)} missing")
    for (parent, state), number in sorted(kinds.items()):
        lines.append(f"{printable(folder / parent)}: {counted(number, 'file')} {state}")
    return lines or [f"{printable(folder)}: no files"]
