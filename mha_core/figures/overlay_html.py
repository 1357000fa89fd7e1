"""Attention over a picture in HTML: a picture whose patches can be chosen, and all heads at once.

Elements with `data-pick` send their value when they are chosen (the page's script): "cls",
"patch:0" to "patch:255", row by row from the upper left, and "head:0" on. One of them has
`tabindex="0"`, so that a picture is one stop of the tab key; the others are reached by arrows.
"""

from __future__ import annotations

import base64
import html
import io

import numpy as np
from numpy.typing import ArrayLike
from PIL import Image

from mha_core.figures.overlay import PATCHES, SIDE, Rows, Style, check_patch, on_picture, paint
from mha_core.figures.text import number
from mha_core.palette import Palette

CLS = "cls"  # sent when [CLS] is chosen as the query
_QUALITY = 88  # of WebP: a tenth of a PNG's bytes, and no loss the eye sees


def patch_pick(value: str) -> int | None:
    """What `data-pick` sent -> the patch's number; None for [CLS], and for what is neither."""
    kind, _, digits = value.partition(":")
    if kind != "patch" or not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits) if int(digits) < PATCHES else None


def overlay_html(
    image: Image.Image,
    row: ArrayLike,
    *,
    colours: Palette,
    head: int,
    alt: str,
    style: Style = "spotlight",
    patch: int | None = None,
    side: int = 560,
) -> str:
    """One head's attention over the picture; every patch can be chosen as the query.

    Args:
        image, colours, style, patch, side: as for `overlay.overlay_png`.
        row: the weights of one query with [CLS] first, (257,); see `on_picture`.
        head: its number, for its colour and name.
        alt: of the picture itself, e.g. "a cat beside a house"; escaped here.

    Raises:
        ConfigError: a row of another shape, no such patch, side or style.
    """
    rows = on_picture(row)
    picture = paint(image, rows, colours=colours, style=style, patch=patch, head=head, side=side)
    query = _name(patch)
    said = (
        f"{alt}. Head {head} from {query}: most weight on {_strongest(rows)}; half of the "
        f"picture's weight in {rows.half()[0].sum()} of {PATCHES} patches"
    )
    return (
        f'<div class="overlay" style="{_variables(colours)}--head:{colours.head(head)}">'
        f"<style>{_CSS}</style>"
        f'<div role="radiogroup" aria-label="query, of which the attention is shown">'
        f"{_bar(rows, patch)}"
        f'<div class="square"><img src="{_uri(picture)}" alt="{html.escape(said)}">'
        f'<div class="patches">{_cells(rows, patch)}</div></div></div>'
        f'<div class="key">{_key(rows, colours, style)}</div></div>'
    )


def overlay_tiles(
    image: Image.Image,
    rows: ArrayLike,
    *,
    colours: Palette,
    chosen: int | None = None,
    style: Style = "spotlight",
    patch: int | None = None,
    together: bool = False,
    side: int = 224,
) -> str:
    """All heads for one query, as small pictures; each can be chosen.

    Args:
        image, colours, style, patch, side: as for `overlay.overlay_png`.
        rows: (h, 257), the weights of one query in each head; see `on_picture`.
        chosen: the head that is marked.
        together: one scale for all heads; else each has its own.

    Raises:
        ConfigError: rows of another shape, no such patch, side or style.
    """
    found = on_picture(rows, together=together)
    stop = chosen if chosen is not None and 0 <= chosen < len(found.patches) else 0
    tiles = []
    for head in range(len(found.patches)):
        picture = paint(image, found, head, colours=colours, style=style, patch=patch, side=side)
        share = _percent(found.cls_share[head])
        told = f"[CLS] {share}" if share else f"max {number(float(found.patches[head].max()), 2)}"
        tiles.append(
            f'<figure class="tile" data-pick="head:{head}" role="radio" '
            f'tabindex="{0 if head == stop else -1}" '
            f'aria-checked="{"true" if head == chosen else "false"}" '
            f'aria-label="head {head}, {told}" style="--head:{colours.head(head)}">'
            f"<figcaption><b>head {head}</b><i>{told}</i></figcaption>"
            f'<img src="{_uri(picture)}" alt=""></figure>'
        )
    scale = "all heads on one scale" if together else "each head on its own scale"
    return (
        f'<div class="overlay" style="{_variables(colours)}"><style>{_CSS}</style>'
        f'<div class="tiles" role="radiogroup" aria-label="heads, query {_name(patch)}">'
        f'{"".join(tiles)}</div><div class="key">root of the weight · {scale}</div></div>'
    )


def _name(patch: int | None) -> str:
    check_patch(patch)
    return "[CLS]" if patch is None else "patch {},{}".format(*divmod(patch, SIDE))


def _percent(share: float) -> str:
    """A weight as a share; empty where it is not known."""
    if np.isnan(share):
        return ""
    return f"{100 * share:.1f} %" if share >= 0.001 or share == 0 else "< 0.1 %"


def _strongest(rows: Rows) -> str:
    best = int(rows.patches[0].argmax())
    return f"{_name(best)} ({number(float(rows.patches[0].max()), 3)})"


def _bar(rows: Rows, patch: int | None) -> str:
    """The query [CLS], which lies nowhere on the picture, and the weight that goes to it."""
    share = _percent(rows.cls_share[0])
    goes = f"<span>{share} of the weight is on [CLS], not on the picture</span>" if share else ""
    return (
        f'<div class="line"><span class="chip" data-pick="{CLS}" {_radio(patch is None)} '
        f'aria-label="[CLS]">[CLS]</span>{goes}</div>'
    )


def _cells(rows: Rows, patch: int | None) -> str:
    values = rows.patches[0].ravel()
    cells = []
    for i in range(PATCHES):
        name = f"{_name(i)} · {number(float(values[i]), 3)}"
        cells.append(
            f'<i data-pick="patch:{i}" {_radio(i == patch)} aria-label="{name}" title="{name}"></i>'
        )
    return "".join(cells)


def _radio(chosen: bool) -> str:
    """Of a group of choices the chosen one alone is a stop of the tab key."""
    return (
        f'role="radio" aria-checked="{"true" if chosen else "false"}" '
        f'tabindex="{0 if chosen else -1}"'
    )


def _key(rows: Rows, colours: Palette, style: Style) -> str:
    """What the light or the colour means, and what the line encloses."""
    half = int(rows.half()[0].sum())
    high = number(float(rows.high[0]), 2)
    beyond = " or more" if rows.clipped[0] else ""
    if style == "tint":
        ramp = f"linear-gradient(to right,{','.join(colours.sequential)})"
        scale = f'weight 0 <i style="background:{ramp}"></i> {high}{beyond}, as its root'
    else:
        scale = f"grey: weight 0 · its own colours: {high}{beyond}, as its root"
    return (
        f'<span class="scale">{scale}</span>'
        f'<span class="half">half of the picture’s weight, in {half} of {PATCHES} patches</span>'
    )


def _uri(picture: Image.Image) -> str:
    out = io.BytesIO()
    picture.save(out, "WEBP", quality=_QUALITY, method=2)
    return f"data:image/webp;base64,{base64.b64encode(out.getvalue()).decode('ascii')}"


def _variables(colours: Palette) -> str:
    names = ("background", "surface", "line", "text", "muted")
    return "".join(f"--{name}:{getattr(colours, name)};" for name in names)


# With the figure, so that it looks the same in a page, in a notebook and in a file of its own.
_CSS = (
    ".overlay{color:var(--text);font-size:13px;max-width:600px}"
    ".overlay:has(.tiles){max-width:none}"
    ".overlay .line{display:flex;gap:10px;align-items:center;flex-wrap:wrap;margin-bottom:8px;"
    "color:var(--muted);font-variant-numeric:tabular-nums}"
    ".overlay .chip{border:1px solid var(--line);border-radius:999px;padding:3px 12px;"
    "cursor:pointer;color:var(--text)}"
    ".overlay .chip[aria-checked=true]{background:var(--text);color:var(--background)}"
    ".overlay .square{position:relative;aspect-ratio:1}"
    ".overlay img{display:block;width:100%;aspect-ratio:1}"
    ".overlay .patches{position:absolute;inset:0;display:grid;"
    f"grid-template:repeat({SIDE},1fr)/repeat({SIDE},1fr)}}"
    ".overlay .patches i{cursor:pointer}"
    ".overlay .patches i:hover,.overlay [data-pick]:focus-visible{outline:2px solid var(--text);"
    "box-shadow:0 0 0 4px var(--background);z-index:1}"
    ".overlay .patches i:hover,.overlay .patches i:focus-visible{outline-offset:-1px}"
    ".overlay .key{display:flex;gap:4px 18px;flex-wrap:wrap;margin-top:8px;color:var(--muted);"
    "font-variant-numeric:tabular-nums}"
    ".overlay .scale i{display:inline-block;width:72px;height:9px;border-radius:2px}"
    ".overlay .half::before{content:'';display:inline-block;width:9px;height:9px;"
    "margin-right:6px;border:2px solid var(--head)}"
    ".overlay .tiles{display:grid;gap:14px;"
    "grid-template-columns:repeat(auto-fill,minmax(min(150px,40vw),1fr))}"
    ".overlay .tile{margin:0;padding:6px;border-radius:6px;cursor:pointer;min-width:0}"
    ".overlay .tile[aria-checked=true]{background:var(--surface);"
    "box-shadow:inset 0 0 0 2px var(--text)}"
    ".overlay figcaption{display:flex;justify-content:space-between;gap:6px;margin-bottom:4px;"
    "white-space:nowrap;overflow:hidden}"
    ".overlay figcaption b{font-weight:650}"
    ".overlay figcaption b::before{content:'';display:inline-block;width:9px;height:9px;"
    "margin-right:6px;background:var(--head);border-radius:2px}"
    ".overlay figcaption i{font-style:normal;color:var(--muted)}"
)
