"""Exports of the maps page: a sheet of all heads, and exact tensors of any length."""

from __future__ import annotations

import html
import math

import streamlit as st

from mha_core import MHAConfig
from mha_core.blockwise import Overview
from mha_core.errors import ConfigError, human_bytes
from mha_core.export.contact_sheet import FORMS, contact_sheet
from mha_core.export.metadata import file_name
from mha_core.maps import on_scale
from mha_core.steps import map_name
from pages.shared import look
from pages.shared.atlas import Atlas
from pages.shared.choice import Choice, Given, Origin, Picture, Weights
from pages.shared.long_export import long_export
from pages.shared.maps_view import View

_FINER = (256, 512, 1024)  # cells a side, where there are more positions
_CELLS = 2**23  # of all heads on a sheet, at most


def panel(choice: Choice | Given, atlas: Atlas, shown: View, found: Overview) -> None:
    """Closed until opened."""
    box = st.expander("Export", key="w_maps_export", on_change="rerun", icon=":material/download:")
    if not box.open:
        return
    with box:
        if isinstance(choice, Given):
            st.caption(
                "These maps came in a file, or from a layer that is not plain: there is no run to "
                "export."
            )
            return
        _sheet(choice, atlas, shown, found)
        st.divider()
        st.caption("Exact tensors, never pooled, at any length: written block by block.")
        words = choice.words
        one = None if words is None or choice.config.batch > 1 else words.tokens[0]
        offered = [
            name for name in atlas.steps if name in ("scores", "scaled", "masked", "weights")
        ]
        long_export(
            choice.config, offered, atlas.streams,
            tokens=choice.tokens if words is None else one, head=shown.head if atlas.slow else None,
        )  # fmt: skip


def _sheet(choice: Choice, atlas: Atlas, shown: View, found: Overview) -> None:
    """All heads on one sheet, pooled as on the page or less."""
    st.caption("All heads on one sheet, pooled as on the page, or to as many cells as you choose.")
    with st.container(horizontal=True, vertical_alignment="bottom", key="sheet_controls"):
        form = st.segmented_control("sheet", list(FORMS), key="w_sheet", required=True,
                                    default="pdf")  # fmt: skip
        mode = st.segmented_control(
            "on", ["light", "dark"], key="w_sheet_mode", default=look.colours().mode, required=True
        )
        offered = resolutions(atlas, shown)
        cells = offered[0]
        if len(offered) > 1:
            cells = st.selectbox("cells a side, at most", offered, key="w_sheet_cells", width=170)
        wanted = st.button("Prepare the sheet", key="w_sheet_make")
    key = (atlas.key, shown.asked, shown.scale, form, mode, cells)
    if wanted:
        try:
            finer = found if cells == offered[0] else _finer(atlas, shown, cells)
            with st.spinner("drawing the sheet"):
                data = _drawn(choice, atlas, shown, finer, str(form), str(mode))
        except ConfigError as error:
            st.error(look.safe(str(error)), icon=":material/error:")
            return
        st.session_state["sheet"] = (key, data)
    made = st.session_state.get("sheet")
    if made is not None and made[0] == key:
        name = file_name(choice.config, f"{map_name(shown.asked.step).replace(' ', '_')}-sheet",
                         str(form), tokens=choice.tokens)  # fmt: skip
        st.download_button(
            f"Download {name} ({human_bytes(len(made[1]))})", made[1], file_name=name,
            mime=FORMS[str(form)], key="w_sheet_file", on_click="ignore",
            icon=":material/download:",
        )  # fmt: skip


def resolutions(atlas: Atlas, shown: View) -> list[int]:
    """Cells a side that a sheet can have: those of the page first, then finer ones."""
    size = atlas.size(shown.asked)
    if size <= atlas.limit:
        return [atlas.limit]
    most = math.isqrt(_CELLS // atlas.heads)
    finer = [cells for cells in (*_FINER, size) if atlas.limit < cells <= min(size, most)]
    return [atlas.limit, *dict.fromkeys(sorted(finer))]


def _finer(atlas: Atlas, shown: View, cells: int) -> Overview:
    """The maps pooled anew; a change of anything ends it."""
    bar = st.progress(0.0, "computing the maps")
    told = [0.0]

    def progress(share: float) -> None:
        if share - told[0] > 0.02:
            told[0] = share
            bar.progress(min(1.0, share), f"computing the maps: {100 * share:.0f} %")

    made = atlas.overview(shown.asked, progress, cells=cells)
    bar.empty()
    return made


def _drawn(
    choice: Choice, atlas: Atlas, shown: View, found: Overview, form: str, mode: str
) -> bytes:
    relative = shown.weights and shown.scale == "× uniform" and found.relative is not None
    pooled = found.relative if relative and found.relative is not None else found.pooled
    return contact_sheet(
        pooled, on_scale(pooled.values, shown.scale if shown.weights else None),
        found.stats if shown.weights else None, choice.config,
        title=f"{title_of(choice)}, batch item {shown.asked.item}",
        name=map_name(shown.asked.step).capitalize(), tokens=atlas.names(shown.asked), form=form,
        mode="dark" if mode == "dark" else "light",
    )  # fmt: skip


def title_of(choice: Choice | Given) -> str:
    """What the maps are of, in a line."""
    if isinstance(choice, Given):
        return choice.title
    match choice.origin:
        case Origin(name=name, layer=layer) | Picture(name=name, layer=layer):
            return f"{name}, layer {layer}"
        case Weights(file=file, prefix=prefix):
            return f"{file} {prefix}".strip()
    return "Random weights" if choice.tokens is None else "Random weights on a text"


def glance(choice: Choice | Given, atlas: Atlas) -> None:
    """What the maps are of, and how much there is of them."""
    cells = atlas.batch * atlas.heads * atlas.time**2
    facts = [
        (f"{atlas.heads}", "heads"),
        (f"{atlas.time:,}", "time"),
        (f"{cells:,}", "attention weights"),
    ]
    if isinstance(choice, Choice):
        facts.append((human_bytes(cells * _width(choice.config)), "if held whole"))
    if atlas.slow:
        facts.append(("block by block", "from q and k"))
    row = "".join(f"<span><b>{value}</b> {what}</span>" for value, what in facts)
    title = html.escape(title_of(choice))
    st.html(look.block(f'<div class="glance maps"><div class="line">{title}</div>'
                       f'<div class="facts">{row}</div></div>'))  # fmt: skip
    if isinstance(choice, Given):
        for note in choice.notes:
            st.warning(look.safe(note.replace("`", "'")), icon=":material/info:")


def _width(config: MHAConfig) -> int:
    return 2 if config.dtype in ("float16", "bfloat16") else 8 if config.dtype == "float64" else 4
