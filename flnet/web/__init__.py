"""The REST API and the page."""
