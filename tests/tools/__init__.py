"""Programs that measure the test suite. They run by hand and are not part of it."""
