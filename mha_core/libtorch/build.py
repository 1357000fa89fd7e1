"""Compiles the C++ module against the LibTorch of this torch: python -m mha_core.libtorch.build.

The program lies in build/libtorch and is compiled again only when the sources, torch or the
compiler changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import filelock
import psutil
import torch

from mha_core.measure import Report, unreported

SOURCES = Path(__file__).parent
PROGRAM, LOG = "mha_libtorch", "build.log"
_LOOK = 0.25  # seconds between two reports


def _folder() -> Path:
    """Beside the sources; where nothing can be written there, in the user's cache."""
    root = SOURCES.parents[1]
    if os.access(root, os.W_OK):
        return root / "build" / "libtorch"
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "shape-of-attention" / "libtorch"


FOLDER = _folder()


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


def program(report: Report = unreported) -> Path:
    """The program, built first where it is not, or is older than its sources or torch.

    Args:
        report: told how far it is, and at least a few times a second; what it raises ends the
            compiler.

    Raises:
        BuildError: something is missing (see `missing`), or the compiler refuses.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    path, stamp = FOLDER / PROGRAM, FOLDER / "built-from.txt"
    with _alone(report):
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
            f"-DPython={sys.executable}", f"-DCMAKE_CXX_COMPILER={_compiler()}", report=report,
        )  # fmt: skip
        _run(cmake, "--build", str(FOLDER), "--parallel", str(_jobs()), report=report)
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
def _alone(report: Report) -> Iterator[None]:
    """Two processes never build at once: the second waits, and then finds it done."""
    lock = filelock.FileLock(FOLDER / "lock")
    while not lock.is_locked:
        with contextlib.suppress(filelock.Timeout):
            lock.acquire(timeout=_LOOK)
        report(0.0, "waiting for another build" if not lock.is_locked else "starting")
    try:
        yield
    finally:
        lock.release()


def _run(*command: str, report: Report) -> None:
    """Keeps what the compiler said in build.log, so that a warning is not lost with the screen."""
    said: list[str] = []
    done, what = 0.0, "looking for LibTorch"
    with (
        (FOLDER / LOG).open("a", encoding="utf-8") as log,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process,
    ):
        try:
            for line in _lines(process):
                if line:
                    log.write(line)
                    said.append(line)
                    done, what = _progress(line, (done, what))
                report(done, what)
        except BaseException:
            _end(process)
            raise
    if process.returncode != 0:
        last = "".join(said[-40:]).rstrip()
        raise BuildError(f"{' '.join(command)} failed:\n{last}")


def _lines(process: subprocess.Popen[str]) -> Iterator[str]:
    """What a process says, a line at a time; an empty one where it says nothing for a while."""
    assert process.stdout is not None
    lines: queue.Queue[str | None] = queue.Queue()

    def read(output: IO[str]) -> None:
        for line in output:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, args=(process.stdout,), daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=_LOOK)
        except queue.Empty:
            yield ""
            continue
        if line is None:
            return
        yield line


def _progress(line: str, before: tuple[float, str]) -> tuple[float, str]:
    """How far a line says that it is: "[ 45%] Building ..." of make, "[3/20] ..." of ninja."""
    found = re.match(r"\[ *(\d+)(%|/(\d+))\] (.*)", line)
    if found is None:
        return before
    of = 100 if found[2] == "%" else int(found[3])
    file = re.search(r"([\w.]+)\.o(bj)?$", found[4].strip())
    return int(found[1]) / of, f"compiling {file[1]}" if file else "compiling and linking"


def _end(process: subprocess.Popen[str]) -> None:
    """The compilers that it has started too."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
    process.kill()


if __name__ == "__main__":
    try:
        print(program())
    except BuildError as error:
        sys.exit(f"error: {error}")
