"""Pantile: redundancy schemes as values.

>>> import pantile
>>> codec = pantile.Codec("rs:10+4")
>>> shards = codec.encode(b"what must not be lost")
>>> shards[0] = shards[7] = None
>>> codec.join(codec.reconstruct(shards), 21)
b'what must not be lost'
>>> pantile.Code("dcode:7").prove().tolerance
2
"""

import json as _json
import os as _os
from html import escape as _escape
from types import SimpleNamespace as _SimpleNamespace

from . import _pantile
from ._errors import (BusyError, CodeError, EpochLost, EpochOver, Error, NotLocated, NotRecoverable, NotServed,
                      SealError, ServerGone, ShapeError, VolumeError)
from ._pantile import (Checked, Chunks, Code, Codec, Equation, Finding, Level, Plan, Proof, WrongColumn, __version__,
                       plan)
from ._volume import Epoch, Volume

if _pantile.Error is not Error:
    raise ImportError("this process has imported pantile before, in another interpreter or before it was taken out "
                      "of sys.modules, and can do so once; use one interpreter, or processes")

__all__ = [
    "BusyError", "Checked", "Chunks", "Code", "CodeError", "Codec", "Comparison", "Epoch", "EpochLost",
    "EpochOver", "Equation", "Error", "Finding", "Level", "NotLocated", "NotRecoverable", "NotServed", "Plan",
    "Proof", "Report", "SealError", "ServerGone", "ShapeError", "Volume", "VolumeError", "WrongColumn", "compare",
    "heal", "plan", "seal", "unseal", "verify",
]


class Report(_SimpleNamespace):
    """What was found or done: the fields of the command's JSON (docs/cli.md) as attributes.

    A field that is called ``is`` there is ``kind`` here.
    """


def _report(text):
    def made(fields):
        return Report(**{"kind" if name == "is" else name: value for name, value in fields.items()})

    return _json.loads(text, object_hook=made)


class Comparison(list):
    """One ``Report`` for each code; a notebook draws it as a table, ``print`` as text."""

    _HEAD = ("code", "columns", "overhead", "claimed", "proved", "updates", "rebuild", "worst", "xor", "mult")

    def _rows(self):
        def share(line, value):
            return f"{'~' if line.rebuild.bound else ''}{100 * value:.1f} %" if line.rebuild.rebuildable else "not"

        for line in self:
            proved = getattr(line, "proved", None)
            yield (
                line.code, str(line.columns), f"{line.overhead:.3f}", str(line.claim.tolerance),
                "" if proved is None else f"{proved.tolerance}{'' if proved.exact else '+'}",
                f"{line.parities_updated.mean:.2f}",
                share(line, line.rebuild.mean_share), share(line, line.rebuild.worst_share),
                f"{line.encode.additions_per_element:.2f}", f"{line.encode.multiplications_per_element:.2f}",
            )

    def __str__(self):
        rows = [self._HEAD, *self._rows()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(self._HEAD))]

        def line(row):
            return row[0].ljust(widths[0]) + "".join(f"  {x:>{w}}" for x, w in zip(row[1:], widths[1:]))

        return "\n".join(map(line, rows))

    def _repr_html_(self):
        def line(tag, row):
            return "<tr>" + "".join(f"<{tag}>{_escape(x)}</{tag}>" for x in row) + "</tr>"

        body = "".join(line("td", row) for row in self._rows())
        return f"<table><thead>{line('th', self._HEAD)}</thead><tbody>{body}</tbody></table>"


def compare(codes, *, prove=False, effort="fast"):
    """Codes side by side, by space, tolerance, update cost, rebuild reads and encoding work.

    Every number is counted from equations and plans. ``rebuild`` and ``worst`` are elements read to
    rebuild one column, as a share of the stripe's data; ``~`` marks a bound, and ``effort="thorough"``
    looks longer. With ``prove`` the tolerance is counted, too. Ctrl-C ends it.

    >>> print(compare(["raid6:4", "dcode:5"]))
    code     columns  overhead  claimed  proved  updates  rebuild    worst   xor  mult
    raid6:4        6     1.500        2             2.00  100.0 %  100.0 %  1.50  0.75
    dcode:5        5     1.667        2             2.00   80.0 %   80.0 %  1.33  0.00
    """
    return Comparison(_report(_pantile.compare(list(codes), prove, effort)))


def _set(paths, name, disks, pin):
    paths = [paths] if isinstance(paths, (str, bytes, _os.PathLike)) else list(paths)
    return {"paths": paths, "name": name, "disks": list(disks.items()), "pin": pin}


def seal(sources, out, code=None, *, name=None, mode=None, checksums=None, exclude=None, dry_run=False,
         progress=None):
    """Seals files and directories under shards in the directory ``out``, or brings a set there up to
    date.

    ``code`` is needed the first time. ``mode`` is ``"full"`` (data and parity, the default) or
    ``"beside"`` (parity alone, the originals stay the data). ``exclude`` has patterns of
    files to leave out from now on, as in a ``.gitignore``; a set keeps them, and ``[]`` removes them.
    ``progress`` is called with the current phase, bytes done and bytes in all, several times a
    second. Ctrl-C ends the call at a safe point, by ``KeyboardInterrupt``; files sealed before are
    unchanged then.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> (folder / "photos").mkdir()
    >>> _ = (folder / "photos" / "a.raw").write_bytes(b"a" * 100_000)
    >>> seal(folder / "photos", folder / "shards", "rs:4+2").files
    1
    >>> sorted((folder / "shards").glob("*.shard"))[2].unlink()
    >>> verify(folder / "shards").recoverable
    True
    >>> len(heal(folder / "shards").shards_written)
    1
    >>> unseal(folder / "shards", folder / "back").files
    1
    """
    sources = [sources] if isinstance(sources, (str, bytes, _os.PathLike)) else list(sources)
    exclude = None if exclude is None else list(exclude)
    return _report(_pantile.seal(sources, out, code, name, mode, checksums, exclude, dry_run, progress))


def verify(paths, *, name=None, disks={}, pin=None, ignore_checksums=False, progress=None):
    """Reads everything and reports missing, wrong and changed files: ``clean``, ``recoverable``.

    ``paths`` are directories of shards, or shards; ``disks`` are the current places of the set's disks
    (``{"films": "/mnt/disk2"}``), if not where they were sealed; ``pin`` a pin that the set must fit.
    """
    return _report(_pantile.verify(_set(paths, name, disks, pin), ignore_checksums, progress))


def heal(paths, *, name=None, disks={}, pin=None, ignore_checksums=False, out=None, guess=False,
         modes=False, progress=None):
    """Repairs the findings of ``verify``, as far as the code can; ``SealError`` if some remain.

    Originals (mode ``beside``) are written to only if ``disks`` names their disks. Lost shards are
    rebuilt in ``out``, or beside the others. Rebuilt originals get the permissions that the umask
    allows, with ``modes`` those that were sealed.
    """
    return _report(_pantile.heal(_set(paths, name, disks, pin), ignore_checksums, out, guess, modes,
                                 progress))


def unseal(paths, target, *, name=None, pin=None, overwrite=False, patterns=(), modes=False, progress=None):
    """Restores the sealed tree, or the files that match ``patterns``, to the directory ``target``.

    Files get the permissions that the umask allows, with ``modes`` those that were sealed.
    """
    return _report(_pantile.unseal(_set(paths, name, {}, pin), target, overwrite, list(patterns), modes,
                                   progress))
