"""The one place that knows the settings, and from where their values come."""

from flnet.settings.model import SECRET, Settings, Source
from flnet.settings.place import LOOPBACK, PREFIX, Mode
from flnet.settings.sources import load_settings

__all__ = ["LOOPBACK", "PREFIX", "SECRET", "Mode", "Settings", "Source", "load_settings"]
