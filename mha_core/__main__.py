"""The command line: `python -m mha_core table ...` and `python -m mha_core export ...`.

Prints to standard output; progress and errors go to standard error. Exit status 0 is success, 2 a
request that cannot be met, said in one line.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, NoReturn

from tqdm import tqdm

from mha_core import budget, cli_input, tables
from mha_core.errors import ConfigError, human_bytes
from mha_core.export import FORMATS, MAPS, Format, Progress, Selection, format_named
from mha_core.export.selection import MODES, check_look, share
from mha_core.maps import SCALES

BAD_INPUT = 2
# As shells report a process that a closed pipe or an interrupt ended.
_PIPE, _INTERRUPT = 141, 130
# The names of the scales as they can be typed.
_SCALES = {name.replace("× ", "").replace(" ", "-"): name for name in SCALES}


class _Refused(Exception):
    """An argument that argparse refuses."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _Refused(message)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit status.

    Args:
        argv: arguments after the program's name; the process's own when None.
    """
    try:
        options = _parser().parse_args(argv)
        run: Callable[[argparse.Namespace], None] = options.run
        run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has what it wanted. Python flushes at exit, and must find no pipe then.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE
    except KeyboardInterrupt:
        return _INTERRUPT
    except (_Refused, ConfigError) as error:
        return _say(str(error))
    except MemoryError:
        return _say("out of memory: lower batch, time, heads or d_model")
    except RuntimeError as error:  # torch's own: a device that fails, memory it cannot have
        return _say(f"torch: {str(error).splitlines()[0]}")
    except OSError as error:
        return _say(f"{error.filename or 'file'}: {error.strerror or error}")
    return 0


def _say(message: str) -> int:
    """One line on standard error, whatever the message holds."""
    line = " ".join(message.split()).encode(errors="backslashreplace").decode()
    print(f"error: {line}", file=sys.stderr)
    return BAD_INPUT


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m mha_core",
        description="Multi-head attention: the shapes of every step, and its tensors in files.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="{table,export}")
    table = commands.add_parser("table", help="print the shape table", allow_abbrev=False)
    cli_input.add_arguments(table)
    table.add_argument(
        "--format", default="text", help=f"{', '.join(tables.FORMATS)} (default: text)"
    )
    table.add_argument(
        "--detail", action="store_true", help="every step, with memory, FLOPs and measured times"
    )
    table.set_defaults(run=_table)
    export = commands.add_parser("export", help="write files", allow_abbrev=False)
    cli_input.add_arguments(export)
    export.add_argument("--out", required=True, type=Path, help="directory; made if missing")
    export.add_argument(
        "--format", default="npz", help=f"comma-separated: {', '.join(FORMATS)}, or all"
    )
    export.add_argument(
        "--tensors", default="weights", help=f"comma-separated: {', '.join(MAPS)}, or q, k, v, ..."
    )
    export.add_argument("--only-heads", metavar="INDICES", help="e.g. 0,1 (default: all)")
    export.add_argument("--items", metavar="INDICES", help="batch items, e.g. 0 (default: all)")
    export.add_argument("--mode", default="light", help=f"{', '.join(MODES)} (default: light)")
    export.add_argument("--scale", default="weight", help=f"of colours: {', '.join(_SCALES)}")
    export.set_defaults(run=_export)
    return parser


def _table(options: argparse.Namespace) -> None:
    asked = cli_input.requested(options)
    if options.format not in tables.FORMATS:
        raise ConfigError(
            "format",
            options.format,
            "is not offered",
            works=f"These work: {', '.join(tables.FORMATS)}",
        )
    budget.check(asked.config, ())
    trace = asked.run((), options.detail)
    _print(tables.render(trace.table(detail=options.detail), options.format))


def _print(text: str) -> None:
    """The same bytes whatever the terminal's encoding and line ends."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")
    sys.stdout.write(f"{text}\n")


def _export(options: argparse.Namespace) -> None:
    asked = cli_input.requested(options)
    config = asked.config
    formats = _formats(options.format)
    selection = Selection(
        tensors=tuple(_listed(options.tensors)),
        heads=_indices("heads", options.only_heads),
        items=_indices("items", options.items),
    )
    scale = _SCALES.get(options.scale, options.scale)
    # All that can be refused is refused before the run.
    check_look(options.mode, scale)
    selection.check(config)
    for form in formats:
        form.check(config, selection)
    budget.check(config, selection.steps)
    _make_directory(options.out)
    measured = any(form.name.startswith("table-") or form.name == "zip" for form in formats)
    trace = asked.run(selection.steps, measured)
    tokens = asked.labels(selection.items)
    written = []
    with _bar() as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fonts: what a reader must know is on the figure
        for place, form in enumerate(formats):
            name = form.file_name(config, selection, tokens)
            with _whole_file(options.out / name) as file:
                form.write(
                    file, trace, selection, tokens=tokens, mode=options.mode, scale=scale,
                    progress=share(progress, place, len(formats)),
                )  # fmt: skip
            written.append(options.out / name)
    _print("\n".join(f"{path}  {human_bytes(path.stat().st_size)}" for path in written))


def _formats(text: str) -> list[Format]:
    every = [name for name in FORMATS if name != "zip"]
    names = [name for part in _listed(text) for name in (every if part == "all" else [part])]
    if not names:
        works = f"These work: {', '.join(FORMATS)}, or all"
        raise ConfigError("format", text, "must name at least one", works=works)
    return [format_named(name) for name in dict.fromkeys(names)]


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _indices(field: str, text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(part) for part in _listed(text))
    except ValueError:
        raise ConfigError(
            field, text, "must be indices separated by commas", works="For example 0,1"
        ) from None


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
        reason = None if os.access(path, os.W_OK | os.X_OK) else "permission denied"
    except (OSError, ValueError) as error:  # ValueError: a null character
        reason = getattr(error, "strerror", None) or str(error)
    if reason is not None:
        raise ConfigError(
            "out",
            str(path),
            f"cannot be written: {reason}",
            works="A directory you may write, or one that can be made, works",
        )


@contextlib.contextmanager
def _whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that appears under its name only when complete."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def _bar() -> Iterator[Progress]:
    """A progress bar on standard error, gone when done."""
    with tqdm(total=100, file=sys.stderr, leave=False, bar_format="{l_bar}{bar}| {elapsed}") as bar:

        def report(done: float, what: str) -> None:
            bar.set_description_str(what, refresh=False)
            bar.update(100 * done - bar.n)

        yield report


if __name__ == "__main__":
    sys.exit(main())
