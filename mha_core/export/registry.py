"""The formats by name: what each is, how much it holds, and who writes it."""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO

from mha_core.config import MHAConfig
from mha_core.errors import ConfigError
from mha_core.export.metadata import file_name, stem
from mha_core.export.selection import Job, Progress, Selection, make_job
from mha_core.trace import Trace


@dataclass(frozen=True)
class Format:
    """One kind of file.

    Attributes:
        name: key in `FORMATS`.
        suffix, mime, description: of the file.
        writer: writes a checked job.
        stem: what the file is called; None for the names of the selected tensors.
        most_maps: (query, key) maps it holds; None where it draws none or any number.
        most_rows: cells it holds, one a row.
    """

    name: str
    suffix: str
    mime: str
    description: str
    writer: Callable[[IO[bytes], Job], None]
    stem: str | None = None
    most_maps: int | None = None
    most_rows: int | None = None

    def build(
        self,
        trace: Trace,
        selection: Selection | None = None,
        *,
        tokens: Sequence[str] | None = None,
        mode: str = "light",
        scale: str = "weight",
        progress: Progress | None = None,
    ) -> bytes:
        """The file as bytes; arguments as in `write`."""
        file = io.BytesIO()
        self.write(file, trace, selection, tokens=tokens, mode=mode, scale=scale, progress=progress)
        return file.getvalue()

    def write(
        self,
        file: IO[bytes],
        trace: Trace,
        selection: Selection | None = None,
        *,
        tokens: Sequence[str] | None = None,
        mode: str = "light",
        scale: str = "weight",
        progress: Progress | None = None,
    ) -> None:
        """Writes the file; everything is checked before the first byte.

        Args:
            file: binary, open for writing.
            trace: what ran, with the tensors selected.
            selection: tensors, heads and batch items; the weights of all when None.
            tokens: one a position, for the labels.
            mode: "light" or "dark" ground of figures.
            scale: one of `maps.SCALES`, for the colours of weights.
            progress: called with the share done, 0 to 1, and what is being written. What it
                raises ends the export.

        Raises:
            ConfigError: the selection does not fit the trace, or is too large for the format.
        """
        selection = Selection() if selection is None else selection
        job = make_job(trace, selection, tokens=tokens, mode=mode, scale=scale, progress=progress)
        self.check(trace.config, selection)
        self.writer(file, job)

    def check(self, config: MHAConfig, selection: Selection) -> None:
        """Refuses more than the format holds; needs no run.

        Raises:
            ConfigError: naming both numbers and what holds more.
        """
        if self.most_maps is None and self.most_rows is None:
            return
        works = "Select fewer heads, items or tensors; npz and safetensors hold any number"
        count = selection.map_count(config)
        if self.most_maps is not None and count > self.most_maps:
            rule = f"must be at most {self.most_maps} in one {self.name} file"
            raise ConfigError("maps", count, rule, works=works)
        rows = count * config.time**2
        if self.most_rows is not None and rows > self.most_rows:
            rule = f"must be at most {self.most_rows:,} in one {self.name} file"
            raise ConfigError("rows", rows, rule, works=works)

    def file_name(
        self, config: MHAConfig, selection: Selection, tokens: Sequence[str] | None = None
    ) -> str:
        """See `metadata.file_name`."""
        return file_name(config, self.stem or stem(selection), self.suffix, tokens=tokens)


def _in(module: str, function: str = "write") -> Callable[[IO[bytes], Job], None]:
    """A writer imported when first used: matplotlib and Plotly take a second each."""

    def write(file: IO[bytes], job: Job) -> None:
        getattr(importlib.import_module(f"mha_core.export.{module}"), function)(file, job)

    return write


def _table(form: str, suffix: str, mime: str, name: str) -> Format:
    def write(file: IO[bytes], job: Job) -> None:
        importlib.import_module("mha_core.export.table").write(file, job, form)

    return Format(
        f"table-{form}", suffix, mime, f"Shape table of every step, {name}", write, "table"
    )


_FILES: tuple[Format, ...] = (
    Format("png", "png", "image/png", "Maps as a picture", _in("png"), most_maps=128),
    Format("svg", "svg", "image/svg+xml", "Maps as vector graphics", _in("svg"), most_maps=128),
    Format(
        "pdf", "pdf", "application/pdf", "Maps as pages, one a tensor and batch item", _in("pdf"),
        most_maps=1024,
    ),
    Format(
        "html", "html", "text/html", "Maps to hover over, offline", _in("html"), most_maps=128
    ),
    Format(
        "csv", "csv", "text/csv", "One row a cell, exact", _in("csv"), most_rows=20_000_000
    ),
    Format("npz", "npz", "application/x-npz", "Exact tensors for NumPy", _in("npz")),
    Format(
        "safetensors", "safetensors", "application/octet-stream", "Exact tensors in their dtype",
        _in("safetensors"),
    ),
    _table("csv", "csv", "text/csv", "CSV"),
    _table("markdown", "md", "text/markdown", "Markdown"),
    _table("latex", "tex", "application/x-tex", "LaTeX"),
    _table("json", "json", "application/json", "JSON"),
    Format(
        "config", "json", "application/json", "Configuration, version of torch and words",
        _in("metadata", "write_config"), stem="config",
    ),
)  # fmt: skip


def _bundle(file: IO[bytes], job: Job) -> None:
    importlib.import_module("mha_core.export.bundle").write(file, job, _FILES)


FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        *_FILES,
        Format("zip", "zip", "application/zip", "All of these, with a manifest", _bundle, "all"),
    )
}


def format_named(name: str) -> Format:
    """The format of this name.

    Raises:
        ConfigError: there is none.
    """
    if name not in FORMATS:
        raise ConfigError(
            "format", name, "is not offered", works=f"These work: {', '.join(FORMATS)}"
        )
    return FORMATS[name]
