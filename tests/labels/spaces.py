"""The label spaces of these tests: X-rays, as three classes and as two."""

from __future__ import annotations

from flnet.labels.spaces import LabelSpace

FINE = LabelSpace("three", ("normal", "bacterial", "viral"))
COARSE = LabelSpace("two", ("normal", "pneumonia"))
NESTED = [[1, 0, 0], [0, 1, 1]]
