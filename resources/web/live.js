// Keeps the page up to date; it works without this file.
