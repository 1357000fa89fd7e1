"""Files too large for memory or for the disk: their size to the byte, and what a full disk says."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from mha_core.errors import ConfigError
from mha_core.export import disk
from mha_core.export.stream import FORMS, Stream, size, write
from tests.export.stream_support import Counted, Full, stream, tensor

GIB = 2**30


def huge(name: str, nbytes: int) -> Stream:
    """A tensor of so many bytes, all of them one block that is yielded again and again."""
    block = torch.zeros(2**24, dtype=torch.float32)  # 64 MiB

    def blocks() -> Iterator[Tensor]:
        left = nbytes // 4
        while left:
            part = block[: min(left, len(block))]
            left -= len(part)
            yield part

    return Stream(name, (nbytes // 4,), torch.float32, blocks)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "sizes",
    [
        (2 * GIB - 128,),  # with its header exactly zipfile's limit for records of 32 bits ...
        (2 * GIB - 132,),  # ... a number less ...
        (2 * GIB - 124,),  # ... and a number more
        (5 * GIB,),
        (GIB, 3 * GIB, 5 * GIB, 64),
        (GIB, GIB, 64, 64),
    ],
)
def test_the_size_is_exact_beyond_four_gib(
    form: str, sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The check sums are of no interest here, and take seconds a GiB.
    monkeypatch.setattr(zipfile, "crc32", lambda *_: 0)
    streams = [huge(f"t{i}", nbytes) for i, nbytes in enumerate(sizes)]
    streams = streams[:1] if form == "npy" else streams
    file = Counted()
    write(form, file, streams, {"tokens": ["a", "b"]})  # type: ignore[arg-type]
    assert file.length == size(form, streams, {"tokens": ["a", "b"]})


def test_a_zip_of_very_many_arrays_has_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipfile, "crc32", lambda *_: 0)
    one = torch.zeros(0)
    for count in (65_535, 65_536):
        streams = [stream(f"t{i}", one) for i in range(count)]
        file = Counted()
        write("npz", file, streams)  # type: ignore[arg-type]
        assert file.length == size("npz", streams)


# --- a full disk ------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EFBIG, errno.EDQUOT])
@pytest.mark.parametrize("room", [0, 40, 500, 1000])
@pytest.mark.parametrize("form", FORMS)
def test_a_full_disk_is_said(form: str, room: int, number: int) -> None:
    streams = [stream("weights", tensor((7, 50), torch.float32))]
    needed = size(form, streams)
    with pytest.raises(disk.DiskError, match=f"the file needs .* \\({needed:,} bytes\\)") as caught:
        write(form, Full(room, number), streams)
    assert isinstance(caught.value, ConfigError)
    assert caught.value.needed == needed
    assert caught.value.free is None


def test_at_the_very_end_too() -> None:
    """Where a buffer hides it until the last byte."""
    streams = [stream("weights", tensor((7, 50), torch.float32))]
    for form in FORMS:
        needed = size(form, streams)
        write(form, Full(needed), streams)
        with pytest.raises(disk.DiskError, match="more than the disk has free"):
            write(form, Full(needed - 1), streams)


def test_another_fault_of_the_disk_is_not_called_full() -> None:
    with pytest.raises(OSError, match="refused") as caught:
        write("npz", Full(0, errno.EIO), [stream("weights", torch.zeros(3))])
    assert not isinstance(caught.value, ConfigError)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs Linux's /dev/full")
@pytest.mark.parametrize("form", ["npy", "safetensors"])
def test_a_real_device_that_is_full(form: str) -> None:
    with (
        pytest.raises(disk.DiskError, match="TMPDIR names another place"),
        open("/dev/full", "wb", buffering=0) as file,
    ):
        write(form, file, [stream("weights", torch.zeros(3))])


@pytest.mark.skipif(not hasattr(os, "fstatvfs"), reason="POSIX")
def test_what_is_free_counts_the_unfinished_file() -> None:
    with tempfile.TemporaryFile() as file:
        file.write(bytes(2**20))
        file.flush()
        with pytest.raises(disk.DiskError, match="and the disk has") as caught, disk.room(file, 5):
            raise OSError(errno.ENOSPC, "No space left on device")
        free = shutil.disk_usage(tempfile.gettempdir()).free
    assert caught.value.free == pytest.approx(free + 2**20, abs=2**30)


@pytest.mark.parametrize(
    ("total", "free", "needed", "spare"),
    [
        (10 * GIB, 4 * GIB, 4 * GIB - GIB // 2, GIB // 2),  # 5 % of a small disk
        (900 * GIB, 4 * GIB, 3 * GIB, GIB),  # 1 GiB of a large one
    ],
)
def test_room_is_left(
    total: int, free: int, needed: int, spare: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = SimpleNamespace(total=total, used=total - free, free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    disk.check(needed, "/tmp")
    with pytest.raises(disk.DiskError, match=r"of which .* are to stay free") as caught:
        disk.check(needed + 1, "/tmp")
    assert (caught.value.free, caught.value.needed, caught.value.spare) == (free, needed + 1, spare)
    assert f"{free:,} bytes" in str(caught.value)
    assert f"{needed + 1:,} bytes" in str(caught.value)


def test_temporary_files_go_to_a_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = [
        SimpleNamespace(mountpoint="/", fstype="ext4"),
        SimpleNamespace(mountpoint="/tmp", fstype="tmpfs"),
        SimpleNamespace(mountpoint="/tmporary", fstype="ext4"),
    ]
    monkeypatch.setattr("psutil.disk_partitions", lambda all: mounts)  # noqa: ARG005
    monkeypatch.setattr(tempfile, "gettempdir", lambda: "/tmp")
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "access", lambda *_: True)
    assert disk.folder() == "/var/tmp"
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert disk.folder() == "/tmp"
    monkeypatch.setattr(os, "access", lambda *_: True)
    mounts[1].fstype = "xfs"
    assert disk.folder() == "/tmp"
    mounts[1].fstype = "tmpfs"
    monkeypatch.setenv("TMPDIR", "/tmp")
    assert disk.folder() == "/tmp"
