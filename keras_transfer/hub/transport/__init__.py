"""From the handle of a module to its folder: archives, the cache, the web."""

from keras_transfer.hub.transport.archives import MAX_BYTES
from keras_transfer.hub.transport.errors import HubError, one_line, shown
from keras_transfer.hub.transport.handles import resolve

__all__ = ["MAX_BYTES", "HubError", "one_line", "resolve", "shown"]
