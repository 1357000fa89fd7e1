"""Room on the disk: where files too large for memory go, and a refusal that says what is free."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import psutil

from mha_core.errors import ConfigError, human_bytes

_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}
_IN_MEMORY = ("tmpfs", "ramfs")
_ON_DISK = "/var/tmp"


class DiskError(ConfigError):
    """A file that does not fit.

    Attributes:
        needed: bytes of the whole file.
        free: bytes that were free before it was begun; None where the system does not say.
        spare: of those, bytes that are to stay free.
    """

    def __init__(self, *, needed: int, free: int | None, spare: int = 0, where: str = "") -> None:
        self.needed, self.free, self.spare = needed, free, spare
        rule = f"the file needs {human_bytes(needed)} ({needed:,} bytes)"
        if free is None:
            rule += ", more than the disk has free"
        else:
            rule += f", and the disk has {human_bytes(free)} free ({free:,} bytes)"
        if spare:
            rule += f", of which {human_bytes(spare)} are to stay free"
        super().__init__(
            "disk", where or "full", rule,
            works="Select fewer heads, items or tensors, or free some space; "
            "TMPDIR names another place for temporary files",
        )  # fmt: skip


def folder() -> str:
    """Where temporary files go, as Python chooses, but not into memory where that can be helped.

    TMPDIR, where it is set, decides. Else /var/tmp is taken where /tmp lies in memory (tmpfs).
    """
    chosen = tempfile.gettempdir()
    named = any(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    if named or not _in_memory(chosen):
        return chosen
    usable = os.access(_ON_DISK, os.W_OK | os.X_OK) and not _in_memory(_ON_DISK)
    return _ON_DISK if usable else chosen


def _in_memory(path: str) -> bool:
    """Whether the file system that holds `path` is memory."""
    real = os.path.realpath(path)
    mounts = [
        (len(part.mountpoint), part.fstype)
        for part in psutil.disk_partitions(all=True)
        if os.path.commonpath([part.mountpoint, real]) == part.mountpoint
    ]
    return bool(mounts) and max(mounts)[1] in _IN_MEMORY


def check(needed: int, where: str, *, spare: int | None = None, freed: int = 0) -> None:
    """Refuses a file that would fill the disk.

    Args:
        needed: bytes of the file.
        where: a folder on the disk.
        spare: bytes to leave free; None for 5 % of the disk, at most 1 GiB.
        freed: bytes that are taken now, and will not be when the file is written.

    Raises:
        DiskError: with the bytes needed and free.
    """
    usage = shutil.disk_usage(where)
    kept = min(usage.total // 20, 2**30) if spare is None else spare
    free = usage.free + freed
    if needed + kept > free:
        raise DiskError(needed=needed, free=free, spare=kept, where=where)


@contextmanager
def room(file: IO[bytes], needed: int) -> Iterator[None]:
    """Writing inside it either succeeds or says that the disk is full.

    Raises:
        DiskError: instead of the system's own error for a full disk or an exceeded quota.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise DiskError(needed=needed, free=_free(file)) from error


def _free(file: IO[bytes]) -> int | None:
    """Bytes free on the file's disk, those of the unfinished file included."""
    try:
        number = file.fileno()
        disk = os.fstatvfs(number)
        own = os.fstat(number).st_blocks * 512  # POSIX counts blocks of 512 bytes
    except (OSError, ValueError, AttributeError):  # no real file, closed, or not POSIX
        return None
    return disk.f_bavail * disk.f_frsize + own
