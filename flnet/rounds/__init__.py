"""One conversation each: averaging with a forced timer, exchange by accuracy."""
