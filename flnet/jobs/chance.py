"""What stands in for chance where nobody passed any in."""

from __future__ import annotations

from flnet.errors import IllegalStep


class NoChance:
    """A source of chance that must not be asked: enough for rules that draw no lots."""

    def random(self) -> float:
        """Refuse.

        Raises:
            IllegalStep: always.
        """
        raise IllegalStep("a rule that draws lots needs a seeded source of chance, but none was passed in")
