"""Importing aiohttp without the certificates of the world.

When it is imported, aiohttp makes two TLS contexts and loads all certificate authorities of the system into each:
2.6 MB that a node never uses, because nodes speak to each other without TLS, or with contexts of their own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

PLACES = ("SSL_CERT_FILE", "SSL_CERT_DIR")  # where OpenSSL looks for authorities, instead of the system's place


@contextmanager
def no_authorities() -> Iterator[None]:
    """While this is open, TLS contexts find no certificate authority; afterwards all is as before."""
    before = {name: os.environ.get(name) for name in PLACES}
    os.environ.update(dict.fromkeys(PLACES, os.devnull))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
