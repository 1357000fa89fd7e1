"""Compiles the C++ module against the LibTorch of this torch: python -m mha_core.libtorch.build.

The program lies in build/libtorch and is compiled again only when the sources, torch or the
compiler changed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

SOURCES = Path(__file__).parent
FOLDER = SOURCES.parents[1] / "build" / "libtorch"
PROGRAM, LOG = "mha_libtorch", "build.log"


class BuildError(RuntimeError):
    """The program cannot be built; the message says why, and ends with the compiler's words."""


def missing() -> str | None:
    """What is missing to build here, in one sentence; None where nothing is."""
    if _compiler() is None:
        return "no C++ compiler: install g++ or clang++ (Debian: apt-get install g++), or set CXX"
    if _cmake() is None:
        return "no cmake: pip install cmake, or apt-get install cmake"
    if shutil.which("make") is None and shutil.which("ninja") is None:
        return "no make: install make or ninja (Debian: apt-get install make)"
    return None


def program() -> Path:
    """The program, built first where it is not, or is older than its sources or torch.

    Raises:
        BuildError: something is missing (see `missing`), or the compiler refuses.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    path, stamp = FOLDER / PROGRAM, FOLDER / "built-from.txt"
    with _alone():
        wanted = _made_from()
        if path.exists() and stamp.exists() and stamp.read_text() == wanted:
            return path
        reason = missing()
        if reason is not None:
            raise BuildError(reason)
        stamp.unlink(missing_ok=True)
        _forget_another_torch(wanted)
        cmake = str(_cmake())
        generator = [] if shutil.which("make") else ["-G", "Ninja"]
        _run(
            cmake, "-S", str(SOURCES), "-B", str(FOLDER), *generator,
            f"-DPython={sys.executable}", f"-DCMAKE_CXX_COMPILER={_compiler()}",
        )  # fmt: skip
        _run(cmake, "--build", str(FOLDER), "--parallel", str(_jobs()))
        stamp.write_text(wanted)
    return path


def _compiler() -> str | None:
    named = os.environ.get("CXX")
    return shutil.which(named) if named else shutil.which("c++") or shutil.which("clang++")


def _cmake() -> str | None:
    """The one on the path, else the one pip put beside this python."""
    beside = Path(sys.executable).with_name("cmake")
    return shutil.which("cmake") or (str(beside) if beside.exists() else None)


def _jobs() -> int:
    """A compiler at LibTorch's headers takes about 1 GB."""
    return max(1, min(os.cpu_count() or 1, 4))


def _made_from() -> str:
    """Torch and the compiler on the first line, a digest of the sources on the second."""
    digest = hashlib.sha256()
    for path in sorted(SOURCES.iterdir()):
        if path.suffix in (".h", ".cpp", ".txt"):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return (
        f"torch {torch.__version__} in {Path(torch.__file__).parent}, {_compiler()}\n"
        f"{digest.hexdigest()}\n"
    )


def _forget_another_torch(wanted: str) -> None:
    """CMake remembers where it found LibTorch and the compiler: begin anew where these changed."""
    remembered = FOLDER / "configured-for.txt"
    first = wanted.splitlines()[0]
    if not remembered.exists() or remembered.read_text() != first:
        for name in ("CMakeCache.txt", LOG):
            (FOLDER / name).unlink(missing_ok=True)
        shutil.rmtree(FOLDER / "CMakeFiles", ignore_errors=True)
        remembered.write_text(first)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Two processes never build at once: the second waits, and then finds it done."""
    with (FOLDER / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _run(*command: str) -> None:
    """Keeps what the compiler said in build.log, so that a warning is not lost with the screen."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    with (FOLDER / LOG).open("a", encoding="utf-8") as log:
        log.write(done.stdout)
    if done.returncode != 0:
        last = "\n".join(done.stdout.splitlines()[-40:])
        raise BuildError(f"{' '.join(command)} failed:\n{last}")


if __name__ == "__main__":
    try:
        print(program())
    except BuildError as error:
        sys.exit(f"error: {error}")
