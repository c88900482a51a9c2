"""All that is known in Spanish: the texts of the pages, and what the node says. The first reader loads it."""

from flnet.web.spanish.tables import EVENTS, PAGES, SENTENCES

__all__ = ["EVENTS", "PAGES", "SENTENCES"]
