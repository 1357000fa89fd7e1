"""All heads of one layer and batch item on one page, from maps that are pooled already.

So it needs no trace, and takes maps of any length: those of 32,768 positions as those of six.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from mha_core.config import MHAConfig
from mha_core.errors import ConfigError
from mha_core.export import figure, fonts
from mha_core.export.labels import clip, labels
from mha_core.export.panels import Panel, config_words, shown_notes
from mha_core.head_stats import HeadStats, keys_text
from mha_core.maps import Pooled, Scaled
from mha_core.palette import Mode, palette

MOST_HEADS = 64
FORMS = {"pdf": "application/pdf", "png": "image/png"}

_TITLE_LETTERS = 80  # beyond some 50, on a narrow page, they get smaller


def contact_sheet(
    pooled: Pooled,
    colours: Scaled,
    stats: HeadStats | None,
    config: MHAConfig,
    *,
    title: str,
    name: str = "Attention weights",
    tokens: Sequence[str] | None = None,
    form: str = "pdf",
    mode: Mode = "light",
) -> bytes:
    """The page as bytes; the same maps give the same bytes.

    Args:
        pooled: (h, rows, columns), NaN where masked.
        colours: the same on a colour scale.
        stats: of the weights, for the effective number of keys; None for scores.
        config: what ran, in the line below the title.
        title: e.g. "BERT, layer 3, batch item 0"; long ones are cut.
        name: of what is shown.
        tokens: one a position; shown where every position has a row of its own.
        form: "pdf" or "png".
        mode: "light" or "dark" ground.

    Raises:
        ConfigError: more heads than fit on a page, no such form, or tokens or statistics of
            another number.
    """
    heads = len(pooled.values)
    _check(heads, pooled, stats, tokens, form)
    single = tokens is not None and pooled.factor == 1
    words = figure.shown_labels(labels(tokens or ()), embedded=True) if single else None
    plain = fonts.drawable(clip(labels([title])[0], _TITLE_LETTERS))
    part = _panel(pooled, colours, stats, f"{name}: query down, key across")
    about = _description(title, name, heads, config)
    details: dict[str, Any] = (
        {"Title": title, "Subject": about, "CreationDate": None}
        if form == "pdf"
        else {"Title": title, "Description": about, "Software": None}
    )
    file = io.BytesIO()
    with figure.drawing():
        drawn = figure.compose([part], config, plain, words, palette(mode))
        drawn.savefig(file, format=form, metadata=details, dpi=_dpi(drawn, pooled))
    return file.getvalue()


def _dpi(drawn: Figure, pooled: Pooled) -> float:
    """Enough for a pixel a cell."""
    inches = drawn.axes[0].get_position().width * drawn.get_figwidth()
    return float(max(figure.DPI, math.ceil(pooled.values.shape[-1] / inches)))


def _check(
    heads: int, pooled: Pooled, stats: HeadStats | None, tokens: Sequence[str] | None, form: str
) -> None:
    if form not in FORMS:
        raise ConfigError("form", form, "is not offered", works=", ".join(FORMS))
    if heads > MOST_HEADS:
        raise ConfigError("heads", heads, f"must be at most {MOST_HEADS} on one sheet")
    if tokens is not None and len(tokens) != pooled.time:
        raise ConfigError("tokens", len(tokens), f"must be one for each of {pooled.time} positions")
    if stats is not None and len(stats.effective_keys) != heads:
        rule = f"must be of the {heads} heads shown"
        raise ConfigError("stats", len(stats.effective_keys), rule)


def _panel(pooled: Pooled, colours: Scaled, stats: HeadStats | None, title: str) -> Panel:
    absent = np.isnan(pooled.values)
    captions = [""] * len(pooled.values)
    if stats is not None:
        captions = [keys_text(keys) for keys in stats.effective_keys]
    if np.ptp(colours.high):  # each head on its own scale
        ends = [f"to {high:.2g}" for high in colours.high]
        captions = [" · ".join(filter(None, pair)) for pair in zip(captions, ends, strict=True)]
    notes = ["hatched: masked, not zero"] if absent.any() else []
    if stats is not None:
        notes.append("keys: the mean over the queries of exp(entropy)")
    return Panel(
        title=title,
        heads=tuple(range(len(pooled.values))),
        captions=tuple(captions),
        notes=(*notes, *shown_notes(pooled, colours)),
        pooled=pooled,
        exact=pooled.values,
        colours=colours,
        masked=absent if absent.any() else None,
    )


def _description(title: str, name: str, heads: int, config: MHAConfig) -> str:
    """What the page is, for a reader who does not see it."""
    words = ", ".join(word for word, _tint in config_words(config))
    return (
        f"{title}. {name} of {heads} heads as heatmaps, query from the top, key from the left. "
        f"Multi-head attention with {words}."
    )
