"""Files of the masks page: the mask, the tables and the figures of the section in view."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st
from torch import Tensor

from mha_core.devices import DTYPES
from mha_core.export.metadata import file_name
from mha_core.figures.mask_cache import COLUMNS as CACHE_COLUMNS
from mha_core.figures.mask_cache import cache_rows, cache_svg
from mha_core.figures.mask_fills import TITLES, fill_rows
from mha_core.figures.mask_grid import Grid, grid_svg
from mha_core.figures.mask_scale import COLUMNS as SCALE_COLUMNS
from mha_core.figures.mask_scale import charts_svg, scale_rows
from mha_core.mask_lab.align import CacheStep
from mha_core.mask_lab.broadcast import Attempt, Axis
from mha_core.mask_lab.build import MaskSpec
from mha_core.mask_lab.check import Checked
from mha_core.mask_lab.fill_records import FillRun
from mha_core.mask_lab.saturation import Saturation
from mha_core.mask_lab.save import KINDS, file_stem, mask_file, table_csv
from mha_core.mask_lab.words import Word
from pages.shared import look
from pages.shared.choice import Choice

CSV, SVG = "text/csv", "image/svg+xml"
# Label, file name, MIME type, and what makes it when it is asked for.
File = tuple[str, str, str, Callable[[], bytes | str]]


def _panel(files: Sequence[File]) -> None:
    """The panel, closed until opened; a file is made when it is asked for."""
    panel = st.expander("Export", key="w_mk_export", on_change="rerun", icon=":material/download:")
    if not panel.open:
        return
    with panel, st.container(horizontal=True, key="mk_files"):
        for label, name, mime, make in files:
            st.download_button(
                label, make, file_name=name, mime=mime, on_click="ignore",
                key=f"mk_file_{label}", icon=":material/download:",
            )  # fmt: skip


def _name(choice: Choice, stem: str, suffix: str) -> str:
    return file_name(choice.config, stem, suffix, tokens=choice.tokens)


def mask_export(choice: Choice, spec: MaskSpec, grid: Grid) -> None:
    """The mask in three formats, and its picture."""
    stem = file_stem(spec)
    dtype = DTYPES[choice.config.dtype]
    files: list[File] = [
        (f"Mask, {kind.upper()}", f"{stem}.{kind}", mime, _maker(spec, kind, dtype))
        for kind, mime in KINDS.items()
    ]
    title = f"Mask {spec.time_q} × {spec.time_k}"
    colours = look.colours()
    files.append(
        ("Figure, SVG", f"{stem}.svg", SVG, lambda: grid_svg(grid, title=title, colours=colours))
    )
    _panel(files)


def _maker(spec: MaskSpec, kind: str, dtype: object) -> Callable[[], bytes]:
    return lambda: mask_file(spec, kind, dtype=dtype)  # type: ignore[arg-type]


def words_export(choice: Choice, words: Sequence[Word], checks: dict[str, Checked | None]) -> None:
    """Every word of every library, with what its check gave."""

    def table() -> bytes:
        titles = ("library", "argument", "given", "code", "cannot", "difference", "empty rows")
        return table_csv(titles, [_word_row(word, checks.get(word.id)) for word in words])

    _panel([("Table, CSV", _name(choice, "mask_words", "csv"), CSV, table)])


def _word_row(word: Word, check: Checked | None) -> tuple[object, ...]:
    given = "; ".join(
        f"{name} {tuple(value.shape)}" if isinstance(value, Tensor) else f"{name}={value}"
        for name, value in word.given.items()
    )
    difference = None if check is None else check.difference
    blind = "" if check is None else check.blind
    return word.library, word.argument, given, word.code, word.unfit, difference, blind


def broadcast_export(
    choice: Choice, axes: Sequence[Axis], refused: str, tried: Sequence[Attempt]
) -> None:
    """The axes and the verdicts."""

    def table() -> bytes:
        rows: list[tuple[object, ...]] = [
            ("axis", axis.name, axis.size, axis.given, axis.verdict) for axis in axes
        ]
        rows += [
            ("call", call.call, None, None, call.error or "runs")
            for call in (Attempt("attend", refused), *tried)
        ]
        return table_csv(("what", "name", "scores", "mask", "verdict"), rows)

    _panel([("Table, CSV", _name(choice, "mask_shape", "csv"), CSV, table)])


def align_export(choice: Choice, steps: Sequence[CacheStep]) -> None:
    """The calls of the decoder, and their figure."""
    colours = look.colours()
    _panel([
        ("Table, CSV", _name(choice, "cache", "csv"), CSV,
         lambda: table_csv(CACHE_COLUMNS, cache_rows(steps))),
        ("Figure, SVG", _name(choice, "cache", "svg"), SVG, lambda: cache_svg(steps, colours)),
    ])  # fmt: skip


def fill_export(choice: Choice, rows: Sequence[Sequence[FillRun]]) -> None:
    """Every fill in every dtype."""
    _panel([("Table, CSV", _name(choice, "fills", "csv"), CSV,
             lambda: table_csv(TITLES, fill_rows(rows)))])  # fmt: skip


def scale_export(
    choice: Choice, found: Sequence[Saturation], own: Sequence[Saturation], d_k: int
) -> None:
    """The samples and the run's own scores, and the charts."""
    colours = look.colours()

    def table() -> bytes:
        rows = [("sampled", *row) for row in scale_rows(found)]
        rows += [("this run", *row) for row in scale_rows(own)]
        return table_csv(("scores", *SCALE_COLUMNS), rows)

    _panel([
        ("Table, CSV", _name(choice, "scale", "csv"), CSV, table),
        ("Figure, SVG", _name(choice, "scale", "svg"), SVG,
         lambda: charts_svg(found, colours, at=d_k)),
    ])  # fmt: skip
