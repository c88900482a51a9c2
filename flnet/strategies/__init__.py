"""Merging rules: pure functions from updates to an average."""

from flnet.strategies.base import MERGING, Filter, Filtered, Merged, RoundStart, Running, State, Strategy
from flnet.strategies.bulyan import bulyan
from flnet.strategies.clipping import clip
from flnet.strategies.composed import composed
from flnet.strategies.cosine import cosine
from flnet.strategies.fed_avg import fed_avg
from flnet.strategies.fed_opt import adaptive, fed_avg_m
from flnet.strategies.geometric_median import geometric_median
from flnet.strategies.k_means import k_means
from flnet.strategies.krum import krum, multi_krum
from flnet.strategies.median import median
from flnet.strategies.scaffold import scaffold
from flnet.strategies.trimmed_mean import DEFAULT_PART, trimmed_mean
from flnet.strategies.winsorised_mean import winsorised_mean

__all__ = [
    "DEFAULT_PART",
    "MERGING",
    "Filter",
    "Filtered",
    "Merged",
    "RoundStart",
    "Running",
    "State",
    "Strategy",
    "adaptive",
    "bulyan",
    "clip",
    "composed",
    "cosine",
    "fed_avg",
    "fed_avg_m",
    "geometric_median",
    "k_means",
    "krum",
    "median",
    "multi_krum",
    "scaffold",
    "trimmed_mean",
    "winsorised_mean",
]
