"""A compiler at work: how far it is, what it said, and its end when nobody waits for it."""

from __future__ import annotations

import contextlib
import queue
import re
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import psutil

from mha_core.measure import Report

_LOOK = 0.25  # seconds between two reports
_ERROR = re.compile(r"CMake Error|: (fatal )?error:|undefined reference|No space left")


class BuildError(RuntimeError):
    """The program cannot be built; the message says why, and ends with the compiler's words.

    Attributes:
        reason: the first error in what was said, with the two lines after it; else the message.
    """

    def __init__(self, message: str, said: Sequence[str] = ()) -> None:
        super().__init__(message)
        first = next((n for n, line in enumerate(said) if _ERROR.search(line)), None)
        found = message.splitlines()[:1] if first is None else said[first : first + 3]
        self.reason = " ".join(line.strip() for line in found if line.strip())


def run(*command: str, log: Path, report: Report) -> None:
    """Runs it; what it says is kept in a file, so that a warning is not lost with the screen.

    Args:
        command: a program and its arguments.
        log: the file, added to.
        report: told how far it is, a few times a second; what it raises ends the program.

    Raises:
        BuildError: it ended with an error.
    """
    said: list[str] = []
    done, what = 0.0, "looking for LibTorch"
    with (
        log.open("a", encoding="utf-8") as kept,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process,
    ):
        try:
            for line in _lines(process):
                if line:
                    kept.write(line)
                    said.append(line)
                    done, what = _progress(line, (done, what))
                report(done, what)
        except BaseException:
            _end(process)
            raise
    if process.returncode != 0:
        last = "".join(said[-40:]).rstrip()
        raise BuildError(f"{' '.join(command)} failed:\n{last}", said)


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
    """The compilers that it has started too: asked first, to take away what is half done."""
    try:
        all_of_it = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        all_of_it = []
    for ask in (psutil.Process.terminate, psutil.Process.kill):
        for child in all_of_it:
            with contextlib.suppress(psutil.NoSuchProcess):
                ask(child)
        process.terminate()
        _, all_of_it = psutil.wait_procs(all_of_it, timeout=3)
    process.kill()
