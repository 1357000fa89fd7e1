"""Compiles the C++ module against the LibTorch of this torch: python -m mha_core.libtorch.build.

The program lies in build/libtorch and is compiled again only when the sources, torch or the
compiler changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import filelock
import psutil
import torch

from mha_core.libtorch.running import BuildError as BuildError
from mha_core.libtorch.running import run as _run
from mha_core.measure import Report, unreported

SOURCES = Path(__file__).parent
PROGRAM, LOG, STAMP = "mha_libtorch", "build.log", "built-from.txt"
_LOOK = 0.25  # seconds between two reports


def _folder() -> Path:
    """Beside the sources; in the user's cache where it is not there and cannot be written there."""
    beside = SOURCES.parents[1] / "build" / "libtorch"
    if os.access(SOURCES.parents[1], os.W_OK) or (beside / PROGRAM).exists():
        return beside
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(cache) / "shape-of-attention" / "libtorch"


FOLDER = _folder()


def missing() -> str | None:
    """What is missing to build here, in one sentence; None where nothing is."""
    if not _compiler()[1]:
        return "no C++ compiler: install g++ or clang++ (Debian: apt-get install g++), or set CXX"
    if _cmake() is None:
        return "no cmake: pip install cmake, or apt-get install cmake"
    if shutil.which("make") is None and shutil.which("ninja") is None:
        return "no make: install make or ninja (Debian: apt-get install make)"
    return None


def built() -> bool:
    """Whether the program is there, and of these sources and this torch."""
    try:
        return (FOLDER / PROGRAM).exists() and (FOLDER / STAMP).read_text() == _made_from()
    except OSError:
        return False


def program(report: Report = unreported) -> Path:
    """The program, built first where it is not, or is older than its sources or torch.

    Args:
        report: told how far it is, and at least a few times a second; what it raises ends the
            compiler.

    Raises:
        BuildError: something is missing (see `missing`), or the compiler refuses.
    """
    if built():
        return FOLDER / PROGRAM
    reason = missing()
    if reason is not None:
        raise BuildError(reason)
    try:
        FOLDER.mkdir(parents=True, exist_ok=True)
        with _alone(report):
            if not built():
                _build(report)
    except OSError as error:
        raise BuildError(f"{FOLDER} cannot be written: {error}") from error
    return FOLDER / PROGRAM


def _build(report: Report) -> None:
    wanted = _made_from()
    (FOLDER / STAMP).unlink(missing_ok=True)
    remembered, first = FOLDER / "configured-for.txt", wanted.splitlines()[0]
    # CMake remembers where it found LibTorch and the compiler: begin anew where these changed.
    if not remembered.exists() or remembered.read_text() != first:
        _forget()
        remembered.write_text(first)
    cmake, launcher, compiler = str(_cmake()), *_compiler()
    generator = [] if shutil.which("make") else ["-G", "Ninja"]
    log = FOLDER / LOG
    try:
        _run(
            cmake, "-S", str(SOURCES), "-B", str(FOLDER), *generator,
            f"-DTorch_DIR={torch.utils.cmake_prefix_path}/Torch",
            f"-DCMAKE_CXX_COMPILER={compiler}", f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}",
            log=log, report=report,
        )  # fmt: skip
        _run(
            cmake, "--build", str(FOLDER), "--parallel", str(_jobs()), log=log, report=report
        )  # fmt: skip
    except BuildError:
        raise
    except BaseException:
        # A file that a compiler was writing when it was ended looks finished.
        _forget()
        raise
    (FOLDER / STAMP).write_text(wanted)


def _forget() -> None:
    """Everything that was made."""
    for path in FOLDER.iterdir():
        if path.name == "lock":
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _compiler() -> tuple[str, str]:
    """What launches the compiler, if anything, and the compiler: CXX may be "ccache g++".

    Empty where there is none.
    """
    named = shlex.split(os.environ.get("CXX", ""))
    if not named:
        return "", shutil.which("c++") or shutil.which("clang++") or ""
    words = [word for word in named if not word.startswith("-")]
    launcher = shutil.which(words[0]) if len(words) > 1 else ""
    return launcher or "", shutil.which(words[-1]) or ""


def _cmake() -> str | None:
    """The one on the path, else the one pip put beside this python."""
    beside = Path(sys.executable).with_name("cmake")
    return shutil.which("cmake") or (str(beside) if beside.exists() else None)


def _jobs() -> int:
    """A compiler at LibTorch's headers takes about 1 GB."""
    room = psutil.virtual_memory().available // (12 * 10**8)
    return max(1, min(os.cpu_count() or 1, 4, room))


def _made_from() -> str:
    """Torch and the compiler on the first line, a digest of the sources on the second.

    Where there is no compiler, what another one built is taken as it is.
    """
    digest = hashlib.sha256()
    for path in sorted(SOURCES.iterdir()):
        if path.suffix in (".h", ".cpp", ".txt"):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    _, compiler = _compiler()
    if not compiler:
        stamp = FOLDER / STAMP
        first = stamp.read_text().splitlines()[0] if stamp.exists() else ""
        made_with = first.rpartition(", ")[2]
    else:
        made_with = f"{compiler} {_version(compiler)}"
    return (
        f"torch {torch.__version__} in {Path(torch.__file__).parent}, {made_with}\n"
        f"{digest.hexdigest()}\n"
    )


@cache
def _version(compiler: str) -> str:
    """Its first line, without commas."""
    done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    return (done.stdout.splitlines() or [""])[0].replace(",", "")


@contextlib.contextmanager
def _alone(report: Report) -> Iterator[None]:
    """Two processes never build at once: the second waits, and then finds it done."""
    lock = filelock.FileLock(FOLDER / "lock")
    try:
        while not lock.is_locked:
            with contextlib.suppress(filelock.Timeout):
                lock.acquire(timeout=_LOOK)
            report(0.0, "starting" if lock.is_locked else "waiting for another build")
        yield
    finally:
        lock.release()


if __name__ == "__main__":
    try:
        print(program())
    except BuildError as error:
        sys.exit(f"error: {error}")
