"""The key pair that a node is known by, in two files of its state folder."""

from flnet.keys.own import OwnKey, own_key

__all__ = ["OwnKey", "own_key"]
