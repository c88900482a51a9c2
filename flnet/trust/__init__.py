"""Whom a node of a pinned mesh trusts: keys that people accepted, that wait, and that stay out; pure."""

from flnet.trust.book import Book, TrustFull, UnknownKey
from flnet.trust.entry import Entry

__all__ = ["Book", "Entry", "TrustFull", "UnknownKey"]
