"""Exceptions, each with the library's sentence: the fact, the limit, and what to do."""


class Error(Exception):
    """A request that the library refuses or cannot carry out."""


class CodeError(Error, ValueError):
    """A spec or a code file names no code, or one that must not store."""


class ShapeError(Error, ValueError):
    """Buffers that are not a stripe: their number, a length, not contiguous, read-only."""


class NotRecoverable(Error):
    """More is lost than the code can recover."""


class NotLocated(Error):
    """Shards do not fit one another, and the wrong one is not certain."""


class BusyError(Error):
    """A buffer is in use by a call of another thread, and one of the two writes it."""


class SealError(Error):
    """A set of sealed files: what is in the way, and what to do about it."""


class VolumeError(Error):
    """A served volume refuses or is not reached: what is in the way, and what to do about it."""


class NotServed(VolumeError):
    """Nothing serves the volume, or its sockets cannot be reached."""


class EpochOver(VolumeError):
    """The epoch has ended: by its policy after a silence, or by an order."""


class EpochLost(VolumeError):
    """A device was lost with data of the epoch that had no parity yet. The epoch is open."""


class ServerGone(VolumeError):
    """The server of the volume has gone or does not answer."""


for _name in ("Error", "CodeError", "ShapeError", "NotRecoverable", "NotLocated", "BusyError", "SealError", "VolumeError",
              "NotServed", "EpochOver", "EpochLost", "ServerGone"):
    globals()[_name].__module__ = "pantile"
