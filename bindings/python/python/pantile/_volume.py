"""Epochs of delayed parity in a served volume, over its control socket (docs/control-socket.md)."""

import json
import os
import socket
from urllib.parse import quote

from ._errors import EpochLost, EpochOver, NotServed, ServerGone, VolumeError

_PATIENCE_S = 300
_ANSWER_BYTES_MOST = 1 << 20


def _seconds(limit):
    return 0 if limit is None else max(1, -int(-limit // 1))


class Volume:
    """The volume in a folder, which ``pantile serve`` serves.

    Nothing is opened until an epoch begins.
    """

    def __init__(self, folder):
        self._folder = os.path.abspath(os.fsdecode(folder))

    def __repr__(self):
        return f"Volume({self._folder!r})"

    def epoch(self, offset=0, length=None, *, pending_most=256 << 20, age_most=30, idle_most=300,
              on_timeout="abort"):
        """Begins an ``Epoch`` of ``length`` bytes at ``offset`` (by default to the end of the volume).

        With more than ``pending_most`` bytes without parity, writers wait until some have it; data
        that have waited for ``age_most`` seconds get theirs. After ``idle_most`` seconds without a
        request, and when this process dies, the epoch ends: by ``"abort"`` or ``"seal"``. ``None`` is
        no limit.

        Raises ``NotServed``, ``ServerGone``, and ``VolumeError`` if the range is not the volume's or
        another epoch holds a part of it.
        """
        if on_timeout not in ("abort", "seal"):
            raise ValueError(f"on_timeout is {on_timeout!r}; say 'abort' or 'seal'")
        order = {
            "do": "delayed-start", "offset": offset, "owed-bytes-max": pending_most,
            "age-max-s": _seconds(age_most), "idle-max-s": _seconds(idle_most), "on-timeout": on_timeout,
        }
        if length is not None:
            order["len-bytes"] = length
        return Epoch(self._folder, order)


class Epoch:
    """An open epoch of delayed parity, made by ``Volume.epoch``; a context manager.

    Data go to the devices at once and parity follows at the end, which makes all of it count
    together; other clients see the earlier content until then. Write to ``uri`` by any NBD client,
    from any number of processes, at the offsets of the volume, and flush. ``with`` ends the epoch, or
    aborts it when the block raises. Not to be used by two threads at the same time.
    """

    def __init__(self, folder, order):
        self._folder = folder
        self._socket = None
        self._connect()
        try:
            answer = self._order(order)
            if answer.get("answer") == "fault":
                raise VolumeError(answer.get("text"))
            self._number, self._offset, self._length = (answer[key] for key in ("epoch", "offset", "len_bytes"))
        except KeyError:
            self._close()
            raise self._gone("gives an answer that is none; it is of another version") from None
        except BaseException:
            self._close()
            raise

    def _connect(self):
        try:
            # A socket's path has at most 107 bytes; that of the folder may be longer.
            opened = os.open(self._folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            raise self._not_served() from None
        try:
            path = f"/proc/self/fd/{opened}/control.sock"
            if os.path.islink(path):
                raise NotServed(f"{self._folder}/control.sock is a link, and orders follow none; remove it")
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._socket.settimeout(_PATIENCE_S)
            self._socket.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            self._close()
            raise self._not_served() from None
        except OSError as error:
            self._close()
            raise NotServed(f"cannot reach {self._folder}/control.sock: {error.strerror}") from error
        finally:
            os.close(opened)

    def _not_served(self):
        return NotServed(f"{self._folder} is not served, and an epoch lives in its server; start it with 'pantile serve'")

    def _gone(self, what):
        return ServerGone(f"the server behind {self._folder}/control.sock {what}: the epoch counts as a whole or not "
                          "at all, which the volume shows once 'pantile serve' runs again")

    def _close(self):
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _order(self, order):
        """Sends an order and returns the answer."""
        line = b""
        try:
            self._socket.sendall(json.dumps(order).encode() + b"\n")
            while not line.endswith(b"\n") and len(line) < _ANSWER_BYTES_MOST:
                if not (piece := self._socket.recv(16 << 10)):
                    break
                line += piece
            return dict(json.loads(line))
        except TimeoutError:
            raise self._gone(f"does not answer, for {_PATIENCE_S} s now") from None
        except (OSError, ValueError):
            raise self._gone("has ended before it answered") from None

    def _end(self, what):
        if self._socket is None:
            raise EpochOver(f"epoch {self._number} has ended; begin another")
        try:
            answer = self._order({"do": what, "epoch": self._number})
        except BaseException:
            # The answer to come would be taken for that of another order.
            self._close()
            raise
        if answer.get("answer") == "fault":
            if answer.get("kind") == "losses":
                raise EpochLost(answer.get("text"))
            self._close()
            raise {"input": EpochOver}.get(answer.get("kind"), ServerGone)(answer.get("text"))
        self._close()

    @property
    def number(self):
        """Its number."""
        return self._number

    @property
    def offset(self):
        """The first byte of its range, which is one of whole stripes."""
        return self._offset

    @property
    def length(self):
        """The bytes of its range."""
        return self._length

    @property
    def uri(self):
        """The address of its export, for any NBD client.

        Raises ``NotServed`` if the NBD server's socket is not in the volume's folder.
        """
        path = os.path.join(self._folder, "nbd.sock")
        if not os.path.exists(path):
            raise NotServed(f"there is no {path}: use the export epoch-{self._number} where the volume is served, or "
                            "serve it without --socket and --tcp")
        return f"nbd+unix:///epoch-{self._number}?socket={quote(os.fsencode(path))}"

    def end(self):
        """Writes pending parity and seals the epoch: all of it survives a crash and is seen by others.

        Raises ``EpochLost`` if a device was lost with data without parity (the epoch is open: write
        them again and end it, or abort it), ``EpochOver``, ``ServerGone``.
        """
        self._end("delayed-end")

    def abort(self):
        """Leaves everything as it was before the epoch. Raises ``EpochOver``, ``ServerGone``."""
        self._end("delayed-abort")

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if self._socket is None:
            return
        if kind is None:
            try:
                self.end()
            finally:
                # Closing the connection ends an epoch that could not be sealed, by its policy.
                self._close()
            return
        try:
            self.abort()
        except VolumeError:
            pass  # the error of the block says more
        finally:
            self._close()

    def __del__(self):
        if getattr(self, "_socket", None) is not None:
            self._close()

    def __repr__(self):
        return f"Epoch({self._number}: {self._length} bytes at {self._offset} of {self._folder!r})"
