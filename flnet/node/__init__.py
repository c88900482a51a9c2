"""One node: the queue, the effects, and the feed of what happened."""
