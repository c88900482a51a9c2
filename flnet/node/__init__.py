"""One node: the queue, the effects, and the feed of what happened."""

from flnet.node.base import Download, Feed, FeedItem, Node, Question, View
from flnet.node.build import assemble, build_node
from flnet.node.core import NodeCore, Owned
from flnet.node.feed import RingFeed
from flnet.node.runtime import NodeRuntime

__all__ = [
    "Download",
    "Feed",
    "FeedItem",
    "Node",
    "NodeCore",
    "NodeRuntime",
    "Owned",
    "Question",
    "RingFeed",
    "View",
    "assemble",
    "build_node",
]
