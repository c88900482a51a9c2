"""The plug-in API of trainers, and the single lane in which they work."""
