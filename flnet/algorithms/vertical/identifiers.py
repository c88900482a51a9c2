"""Ids of rows in one form, so that holders who write the same id differently find the same person.

The rule has a name, `RULE`. Two holders with different rules would miss each other's rows without any error, so nodes
compare the names before they align; a change of the rule gets another name. `RULE_IN_WORDS` is the rule for people.

Text is decomposed, case-folded, composed to NFC (Unicode Standard, 3.13, D145) and trimmed. Numbers are written
without a fraction, so 7, 7.0, "7", "7.0" and " 7 " are one id. Leading zeros count: "007" is not "7", because a
register that writes them means them, and because a holder who lost them by reading its column as numbers should see
few matches, not wrong ones. Only the ASCII digits are digits, "1e3" and "+7" stay text, and text is never rounded.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flnet.errors import AlignmentRefused
from flnet.text import text

RULE = "flnet-ids-1"
RULE_IN_WORDS = text(
    "Spaces around an id and upper or lower case do not count, and equal characters may be encoded differently. Whole "
    "numbers are equal to their text: 7, 7.0 and '7' are one id. Leading zeros count: '007' is another id than '7'."
)

EXACT_BITS = 53  # whole numbers up to 2**53 are exact in a Python float

# Spreadsheets put U+FEFF before the first cell of a file, and U+200B is a space that nobody sees.
_EDGES = re.compile(r"^[\s\ufeff\u200b]+|[\s\ufeff\u200b]+$")
_WHOLE = re.compile(r"(0|-?[1-9][0-9]*)\.0+")

Column = Sequence[object] | NDArray[Any]


def normalised(value: str | float) -> str:
    """One id by the rule. Empty text stays empty.

    Args:
        value: text, or a whole number.

    Raises:
        ValueError: a number that is not whole, or not finite.
    """
    if not isinstance(value, str):
        if not math.isfinite(value) or value != math.floor(value):
            raise ValueError(f"value={value}")
        return str(int(value))
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFD", value).casefold())
    trimmed = _EDGES.sub("", folded)
    whole = _WHOLE.fullmatch(trimmed)
    return whole[1] if whole else trimmed


def normalised_column(column: Column) -> list[str]:
    """All ids of a holder by the rule, in the order of its rows.

    Args:
        column: (n,) text or numbers, one for each row. None, NaN and blank text are missing ids.

    Returns:
        n different texts.

    Raises:
        AlignmentRefused: there are no ids, or some are missing, of another type, not exact, or there more than once.
            The message says how many, never which.
    """
    values, exact_bits = _listed(column)
    _check_types(values)
    _check_numbers(values, exact_bits)
    ids = [normalised(value) for value in values]
    _refuse_some(
        sum(not _encodable(value) for value in ids),
        len(ids),
        text("contain characters that are not valid Unicode"),
    )
    repeated = len(ids) - len(set(ids))
    _refuse_some(
        repeated, len(ids), text("repeat the id of an earlier row (after normalisation); each may occur only once")
    )
    return ids


def _listed(column: Column) -> tuple[list[Any], int]:
    """The values as Python objects, and up to how many bits their whole numbers are exact."""
    if isinstance(column, np.ndarray) and column.ndim != 1:
        raise AlignmentRefused(text("ids have to be one column, but there are {count} dimensions", column.ndim))
    values = column.tolist() if isinstance(column, np.ndarray) else list(column)  # masked entries become None
    if not values:
        raise AlignmentRefused(text("the column of ids has no rows"))
    if isinstance(column, np.ndarray) and column.dtype.kind == "f":
        return values, np.finfo(column.dtype).nmant + 1
    return values, EXACT_BITS


def _check_types(values: Sequence[object]) -> None:
    missing = sum(_is_missing(value) for value in values)
    _refuse_some(missing, len(values), text("are missing or empty; each row needs one"))
    texts = sum(isinstance(value, str) for value in values)
    numbers = sum(_is_number(value) for value in values)
    _refuse_some(len(values) - texts - numbers, len(values), text("are neither text nor numbers"))
    if texts and numbers:
        raise AlignmentRefused(
            text(
                "ids have to be all text or all numbers, but {texts} are text and {numbers} numbers",
                texts,
                numbers,
            )
        )


def _check_numbers(values: Iterable[Any], exact_bits: int) -> None:
    """Refuse floats that are no whole numbers, or so large that different ids could have become one."""
    floats = [float(value) for value in values if isinstance(value, float | np.floating)]
    limit = 2.0**exact_bits
    wrong = sum(not math.isfinite(value) or value != math.floor(value) or abs(value) >= limit for value in floats)
    _refuse_some(wrong, len(floats), text("are not whole, or too large to be exact as numbers; give them as text"))


def _refuse_some(count: int, total: int, fault: str) -> None:
    if count:
        raise AlignmentRefused(text("{count} of {total} ids {reason}", count, total, fault))


def _is_missing(value: object) -> bool:
    if isinstance(value, str):
        return not _EDGES.sub("", value)
    return value is None or (isinstance(value, float | np.floating) and bool(np.isnan(value)))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _encodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
