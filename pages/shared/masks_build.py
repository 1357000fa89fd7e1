"""The mask: from its parts and by hand, as every form sees it, and the weights under it."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import streamlit as st
import torch
from torch import Tensor

from mha_core import maps
from mha_core.figures.focus_html import Hover, map_html
from mha_core.figures.mask_grid import MOST_CELLS, Grid, grid_html, two_tone
from mha_core.figures.mask_words import cell_text
from mha_core.figures.text import labels, plural
from mha_core.maps import HeadMaps, Scaled
from mha_core.mask_lab import build
from mha_core.mask_lab.build import MaskSpec
from mha_core.mask_lab.check import ours
from mha_core.mask_lab.forms import FORMS, convert
from mha_core.mask_lab.lab import Lab
from pages.shared import look
from pages.shared.choice import Choice
from pages.shared.masks_export import mask_export
from pages.shared.masks_state import PARTS, default_lengths, kept, note, spec_of, widget

_grid = st.components.v2.component(
    "shape_of_attention_mask", js=look.asset("masks_grid.js"), isolate_styles=False
)


def build_section(choice: Choice, lab: Lab) -> None:
    """Parts, cells to paint, the same mask in three forms, and a head's weights under it."""
    _parts(choice, lab)
    spec, error = spec_of(choice, lab)
    if error is not None:
        st.error(look.safe(str(error)), icon=":material/error:")
    item = min(kept()["item"], lab.batch - 1)
    keep = build.keep(spec)
    grid = grid_of(choice, spec, item)
    look.section("Mask", _facts(keep, lab))
    left, right = st.columns(2, gap="large")
    with left:
        _paintable(grid, lab, item)
        _under(spec, lab)
    with right:
        _weights(choice, lab, keep, item)
    _forms(keep, grid, lab)
    code = st.expander("Code: PyTorch that builds this mask", key="w_code", on_change="rerun",
                       icon=":material/code:")  # fmt: skip
    if code.open:
        code.code(build.program(spec), language="python")
    mask_export(choice, spec, grid)


def grid_of(choice: Choice, spec: MaskSpec, item: int) -> Grid:
    """The mask of one batch item, with the words of its tokens."""
    keep = build.keep(spec)
    padding = build.padding(spec)
    shown = keep if keep.dim() == 2 else keep[item, 0]
    words = choice.labels(item)
    names = labels(None if words is None else words[: spec.time_k], spec.time_k)
    return Grid(
        shown.numpy(),
        names,
        names,
        None if padding is None else ~padding[item, 0, 0].numpy(),
        {(query, key) for query, key, _ in spec.drawn},
    )


def _parts(choice: Choice, lab: Lab) -> None:
    key, changed = widget("parts")
    st.pills("parts", PARTS, selection_mode="multi", key=key, on_change=changed)
    chosen = kept()["parts"]
    with st.container(horizontal=True, key="mk_parts", vertical_alignment="bottom"):
        if "prefix" in chosen:
            key, changed = widget("prefix", min(kept()["prefix"], lab.time))
            st.number_input("prefix, keys all see", 0, lab.time, key=key, on_change=changed,
                            width=150)  # fmt: skip
        if "sliding window" in chosen:
            key, changed = widget("window")
            st.number_input("window, |query − key| <", 1, build.MAX_TIME, key=key,
                            on_change=changed, width=170)  # fmt: skip
        if "blocks" in chosen:
            key, changed = widget("blocks")
            st.text_input("blocks, size or sizes", key=key, on_change=changed, width=170)
        if "padding" in chosen:
            key, changed = widget("lengths")
            usual = ", ".join(map(str, default_lengths(choice, lab)))
            st.text_input("lengths, one a batch item", key=key, on_change=changed, width=210,
                          placeholder=usual)  # fmt: skip
            key, changed = widget("side")
            st.segmented_control("padding at the", ["right", "left"], key=key, on_change=changed,
                                 required=True)  # fmt: skip
        if lab.batch > 1 and "padding" in chosen:
            key, changed = widget("item", min(kept()["item"], lab.batch - 1))
            st.number_input("batch item shown", 0, lab.batch - 1, key=key, on_change=changed,
                            width=150)  # fmt: skip


def _facts(keep: Tensor, lab: Lab) -> str:
    share = 100 * float(keep.float().mean())
    facts = [f"{tuple(keep.shape)} boolean", f"{keep.numel():,} B", f"{share:.1f} % visible"]
    blind = build.blind_rows(keep)
    if blind:
        facts.append(f"{plural(len(blind), 'row')} without a key")
    if note(lab):
        facts.append(note(lab))
    return " · ".join(facts)


def _paintable(grid: Grid, lab: Lab, item: int) -> None:
    alt = f"mask of batch item {item}: query from the top, key from the left"
    if lab.time > MOST_CELLS:
        look.clickable(look.block(_picture(grid, alt)), key="mk_map", on_pick=lambda _: None)
        return
    html = look.block(grid_html(grid, alt=alt, paint=True))
    _grid(key="mk_grid", data={"html": html, "ack": kept()["stroke"]}, on_painted_change=_painted)


def _picture(grid: Grid, alt: str) -> str:
    """A mask too large for cells: one picture, hatched where hidden."""
    ones = torch.ones(1, *grid.keep.shape)
    found = maps.pool(HeadMaps("softmax", ones, torch.from_numpy(grid.keep)[None]), 128)
    end = np.ones(1, dtype=np.float32)
    scaled = Scaled(found.values, end * 0, end * 2, "", False, diverging=False)
    names = list(grid.rows) if found.factor == 1 else [str(int(c)) for c in found.centres()]
    return map_html(scaled, 0, Hover(names, "may attend:"), colours=look.colours(), alt=alt,
                    bar=False)  # fmt: skip


def _painted() -> None:
    """Stores the strokes painted since the last. They come from a browser: read with care."""
    inside = range(MOST_CELLS)
    try:
        for stroke in json.loads(st.session_state["mk_grid"].get("painted") or "[]"):
            number, visible = int(stroke["id"]), bool(stroke["keep"])
            if number <= kept()["stroke"]:
                continue  # sent again, and there already
            cells = [(int(query), int(key)) for query, key in stroke["cells"][: MOST_CELLS**2]]
            drawn = {cell: visible for cell in cells if cell[0] in inside and cell[1] in inside}
            kept().update(drawn=kept()["drawn"] | drawn, stroke=number)
    except (ValueError, KeyError, TypeError):
        return


def _under(spec: MaskSpec, lab: Lab) -> None:
    with st.container(horizontal=True, key="mk_under", vertical_alignment="center"):
        if lab.time <= MOST_CELLS:
            hint = "Query from the top, key from the left. Click a cell, or drag across several."
        else:
            hint = f"Cells can be painted up to {MOST_CELLS} × {MOST_CELLS}."
        st.html(look.block(f'<div class="key">{hint} Hatched = hidden.</div>'))
        if spec.drawn:
            st.button(
                f"Clear {plural(len(spec.drawn), 'drawn cell')}", key="mk_clear",
                on_click=lambda: kept().update(drawn={}), icon=":material/ink_eraser:",
            )  # fmt: skip


def _weights(choice: Choice, lab: Lab, keep: Tensor, item: int) -> None:
    head = min(kept()["head"], lab.heads - 1)
    weights = ours(lab, keep.to(lab.x.device))[item, head].float().cpu()
    seen = (keep if keep.dim() == 2 else keep[item, 0])[None]
    pooled, scaled = maps.scaled(HeadMaps("softmax", weights[None], seen), 96)
    words = choice.labels(item)
    names = labels(None if words is None else words[: lab.time], lab.time)
    if pooled.factor > 1:
        names = [str(int(centre)) for centre in pooled.centres()]
    picture = map_html(
        scaled, 0, Hover(names, "weight"), colours=look.colours(),
        alt=f"weights of head {head} under the mask",
    )  # fmt: skip
    colour = look.colours().head(head)
    look.clickable(
        look.block(
            f'<div class="focus-head" style="--head:{colour}"><b>head {head}, weights under it</b>'
            f"<span>this run, batch item {item}</span></div>{picture}"
        ),
        key="mk_weights",
        on_pick=lambda _: None,
    )
    if lab.heads > 1:
        key, changed = widget("head", head)
        st.number_input("head", 0, lab.heads - 1, key=key, on_change=changed, width=140)


def _forms(keep: Tensor, grid: Grid, lab: Lab) -> None:
    look.section("The same mask, three ways", "no shape tells which of them is meant")
    dtype = lab.x.dtype
    texts: dict[str, Callable[[bool], str]] = {
        name: _text_of(name, dtype) for name in ("keep", "ignore", "additive")
    }
    pieces = []
    for name, text in texts.items():
        form = FORMS[name]
        shown = convert(keep, "keep", name, dtype=dtype)
        if lab.time <= MOST_CELLS:
            body = grid_html(grid, alt=form.title, text=text, small=True)
        else:  # filled where True, or -inf
            marked = grid.keep if name == "keep" else ~grid.keep
            body = two_tone(marked, look.colours(), alt=f"{form.title}: {form.meaning}")
        kind = str(shown.dtype).removeprefix("torch.")
        size = shown.numel() * shown.element_size()
        pieces.append(
            f'<div><div class="focus-head plain"><b>{form.title}</b>'
            f"<span>{kind}, {size:,} B</span></div>{body}"
            f'<div class="mk-why"><b>{form.meaning}</b><br>{form.used}</div></div>'
        )
    # Not st.html, which takes the pictures of large masks out.
    three = look.block(f'<div class="mk-three">{"".join(pieces)}</div>')
    look.clickable(three, key="mk_forms", on_pick=lambda _: None)


def _text_of(name: str, dtype: torch.dtype) -> Callable[[bool], str]:
    """What a form has in a cell: read from the conversion of a mask of both values."""
    both = convert(torch.tensor([False, True]), "keep", name, dtype=dtype).tolist()
    return lambda visible: cell_text(both[int(visible)])
