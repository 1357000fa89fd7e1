"""Two windows of maps side by side and, where they measure the same, their difference."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mha_core.errors import ConfigError
from mha_core.figures.patch_html import PatchHover, patch_html
from mha_core.figures.text import number
from mha_core.maps import Scaled
from mha_core.palette import Palette
from mha_core.patch import Patch, difference, scaled_pair, scaled_patch

_SIDE = 300  # pixels of the longer side of each


@dataclass(frozen=True)
class Side:
    """One of the two.

    Attributes:
        patch: what is shown.
        title: e.g. "A: head 0"; escaped where it is written.
        name: of its values, "weight" or "score". Sides of one name share a scale.
        weights: whether a masked cell is a weight of 0 in a difference, and the scale begins at 0.
        tokens: one a position of the whole map, or None.
    """

    patch: Patch
    title: str
    name: str
    weights: bool = True
    tokens: Sequence[str] | None = None


def compare_html(a: Side, b: Side, *, colours: Palette, zoom: bool = True) -> str:
    """A, B and, where both have the same unit and window, B − A: in a row, or one below the other.

    Args:
        a, b: the two; a difference needs the same window, pooled alike.
        colours: of the ground.
        zoom: whether boxes and cells can be chosen on them.
    """
    together = (a.name, a.weights) == (b.name, b.weights)
    if together:
        scales = list(scaled_pair(a.patch, b.patch, weights=a.weights))
    else:
        scales = [scaled_patch(one.patch, weights=one.weights)[1] for one in (a, b)]
    pieces = [
        _one(one.patch, scale, one.title, _hover(one), colours, zoom)
        for one, scale in zip((a, b), scales, strict=True)
    ]
    apart = "" if together else f"B − A is not defined: a {b.name} less a {a.name} means nothing."
    if together:
        try:
            patch, scale = difference(a.patch, b.patch, weights=a.weights)
        except ConfigError as error:
            apart = f"B − A is not defined: {error.field} differ."
        else:
            sizes = np.abs(patch.values[np.isfinite(patch.values)])
            title = f"B − A, largest {number(float(sizes.max(initial=0.0)), 3)}"
            hover = PatchHover(
                "B − A", b.tokens, many=f"{b.name}s of B, less that of A",
                pooled=f"{patch.how} of B − {patch.how} of A",
            )  # fmt: skip
            pieces.append(_one(patch, scale, title, hover, colours, zoom))
    note = f'<div class="key">{html.escape(apart)}</div>' if apart else ""
    body = "".join(f"<div>{piece}</div>" for piece in pieces)
    return f'<div class="patch-trio">{body}</div>{note}'


def _hover(side: Side) -> PatchHover:
    return PatchHover(side.name, side.tokens, many=f"{side.name}s")


def _one(
    patch: Patch, scale: Scaled, title: str, hover: PatchHover, colours: Palette, zoom: bool
) -> str:
    picture = patch_html(
        patch,
        scale,
        hover,
        colours=colours,
        alt=f"{title}: query from the top, key from the left",
        zoom=zoom,
        side=_SIDE,
    )
    return f'<div class="focus-head plain"><b>{html.escape(title)}</b></div>{picture}'
