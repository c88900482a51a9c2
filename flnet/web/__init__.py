"""The REST API and the page."""

from flnet.web.app import create_app

__all__ = ["create_app"]
