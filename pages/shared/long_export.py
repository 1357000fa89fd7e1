"""Exact maps of any length as a file: how large it is, then written with progress, then fetched."""

from __future__ import annotations

import html
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mha_core import MHAConfig
from mha_core.errors import ConfigError, human_bytes
from mha_core.export import Selection, disk, file_name
from mha_core.export import stem as selection_stem
from mha_core.export.stream import FORMS, Form, Stream, about
from pages.shared import downloads, look
from pages.shared.downloads import Offer, State
from pages.shared.held import drop, held, hold

# Tensors, heads and batch items -> the streams, of which nothing is computed yet.
Streams = Callable[[tuple[str, ...], tuple[int, ...], tuple[int, ...]], Sequence[Stream]]

_NOTE = "long_note"
_ENDED = "The export was ended before it was done, and nothing of it is kept."
_TELL = 0.2  # seconds between two reports: each is a message to the browser
_ASK = 2.0  # seconds between two looks at a download that goes on


@dataclass(frozen=True)
class _Order:
    """A file that can be written."""

    form: Form
    streams: tuple[Stream, ...]
    metadata: dict[str, Any]
    name: str
    size: int

    def write(self, file: IO[bytes], bar: DeltaGenerator) -> None:
        self.form.write(file, self.streams, self.metadata, _Told(bar))


def long_export(
    config: MHAConfig,
    offered: Sequence[str],
    streams: Streams,
    *,
    tokens: Sequence[str] | None = None,
    head: int | None = None,
) -> None:
    """The panel. Call it last: while it writes, the page below it stands still.

    Args:
        config: of the run; gives the ranges of heads and batch items, and the file its name.
        offered: tensors one can choose, by their names: scores, scaled, masked, weights.
        streams: makes the streams of what was chosen; called at each run, so it computes nothing.
        tokens: one a position.
        head: chosen at first; None for all.
    """
    form, selection = _choose(config, offered, head)
    order: _Order | None = None
    try:
        made = _order(config, form, selection, streams, tokens)
        st.html(look.block(_size_html(made)))
        disk.check(made.size, disk.folder())
        order = made
    except ConfigError as error:
        st.error(look.safe(str(error)), icon=":material/error:")
    wanted = st.button(
        "Prepare the file", key="w_long_prepare", type="primary", disabled=order is None
    )
    place = st.empty()
    if wanted and order is not None:
        _prepare(order, place)
    _stand(place, order)


def _choose(config: MHAConfig, offered: Sequence[str], head: int | None) -> tuple[Form, Selection]:
    one, two = st.columns(2)
    name = one.selectbox(
        "format", list(FORMS), key="w_long_format",
        format_func=lambda name: f"{name}: {FORMS[name].description}",
    )  # fmt: skip
    key = "w_long_tensors"
    kept = [tensor for tensor in st.session_state.get(key, offered[-1:]) if tensor in offered]
    st.session_state[key] = kept or list(offered[-1:])
    tensors = two.multiselect("tensors", offered, key=key)
    three, four = st.columns(2)
    heads = _indices(three, "heads", config.heads, [] if head is None else [head])
    items = _indices(four, "batch items", config.batch, [])
    return FORMS[name], Selection(tuple(tensors), heads, items)


def _indices(
    column: DeltaGenerator, what: str, count: int, first: list[int]
) -> tuple[int, ...] | None:
    """Indices chosen; None for all."""
    key = f"w_long_{what}"
    st.session_state[key] = [i for i in st.session_state.get(key, first) if i < count]
    chosen = column.multiselect(what, range(count), key=key, placeholder="all")
    return tuple(sorted(chosen)) or None


def _order(
    config: MHAConfig,
    form: Form,
    selection: Selection,
    streams: Streams,
    tokens: Sequence[str] | None,
) -> _Order:
    """What was asked for.

    Raises:
        ConfigError: no tensor, or more than the format holds.
    """
    _ = selection.steps  # refuses none
    heads = selection.heads or tuple(range(config.heads))
    items = selection.items or tuple(range(config.batch))
    made = tuple(streams(selection.names, heads, items))
    metadata = about(form.name, made, config, heads=heads, items=items, tokens=tokens)
    name = file_name(config, selection_stem(selection), form.name, tokens=tokens)
    return _Order(form, made, metadata, name, form.size(made, metadata))


def _size_html(order: _Order) -> str:
    """The size of the file and what is in it, before anything is written."""
    parts = "".join(
        f"<li><b>{html.escape(one.name)}</b> <code>{one.shape}</code> "
        f"{str(one.dtype).removeprefix('torch.')}, {human_bytes(one.nbytes)}</li>"
        for one in order.streams
    )
    return (
        f'<div class="long-size"><p><b>{human_bytes(order.size)}</b> '
        f"<span>{order.size:,} bytes, exact values, none pooled</span></p><ul>{parts}</ul></div>"
    )


def _prepare(order: _Order, place: DeltaGenerator) -> None:
    """Writes the file. Any control used meanwhile, Cancel too, ends it at the next report."""
    drop()
    st.session_state[_NOTE] = (order.name, "info", _ENDED)
    with place.container():
        bar = st.progress(0.0, "starting")
        st.button("Cancel", key="w_long_cancel")
    try:
        hold(order.name, order.form.mime, order.size, lambda file: order.write(file, bar))
    except ConfigError as error:
        st.session_state[_NOTE] = (order.name, "error", str(error))
    else:
        st.session_state[_NOTE] = None


class _Told:
    """Progress on the page: the share done, and the time left at the pace so far."""

    def __init__(self, bar: DeltaGenerator) -> None:
        self._bar = bar
        self._began = self._last = time.monotonic()

    def __call__(self, done: float, what: str) -> None:
        now = time.monotonic()
        if now - self._last < _TELL:
            return
        self._last = now
        left = (now - self._began) * (1 - done) / done if done > 0 else 0.0
        self._bar.progress(min(1.0, done), f"{what}, {_duration(left)} left")


def _duration(seconds: float) -> str:
    """About how long, in words."""
    if seconds < 60:
        return f"about {max(1, round(seconds))} s"
    if seconds < 3600:
        return f"about {round(seconds / 60)} min"
    return f"about {seconds / 3600:.1f} h"


def _stand(place: DeltaGenerator, order: _Order | None) -> None:
    """The link, or what has become of the file."""
    offer = held()
    note = st.session_state.get(_NOTE)
    with place.container():
        if offer is not None and offer.state in (State.READY, State.SENDING):
            _going_on(offer)
        elif offer is not None:
            st.html(look.block(_file_html(offer)))
        elif note is not None and order is not None and note[0] == order.name:
            _, kind, text = note
            show = st.error if kind == "error" else st.info
            show(look.safe(text), icon=f":material/{kind}:")


@st.fragment(run_every=_ASK)
def _going_on(offer: Offer) -> None:
    """A file that waits or is being sent: looked at from time to time, since no click tells."""
    if offer.state not in (State.READY, State.SENDING):
        st.rerun()
    st.html(look.block(_file_html(offer)))
    if offer.state is State.READY and st.button("Discard", key="w_long_discard", type="tertiary"):
        drop()
        st.session_state[_NOTE] = None
        st.rerun()


def _file_html(offer: Offer) -> str:
    name, size = html.escape(offer.name, quote=True), human_bytes(offer.size)
    share = f"{100 * offer.sent / max(1, offer.size):.0f} %"
    words = {
        State.READY: "It can be fetched once, within "
        f"{downloads.shelf.idle / 60:.0f} minutes; then its space is freed.",
        State.SENDING: f"Being downloaded: {share}.",
        State.SENT: "Downloaded. For another copy, prepare it again.",
        State.BROKEN: f"The download was broken off at {share}. Prepare the file again.",
        State.EXPIRED: "It was not fetched in time, and its space is freed. Prepare it again.",
        State.TAKEN_BACK: "Its space is freed. Prepare it again.",
    }[offer.state]
    link = ""
    if offer.state is State.READY:
        address = html.escape(downloads.link(offer), quote=True)
        link = f'<a class="long-link" href="{address}" download="{name}">Download {size}</a>'
    return f'<div class="long-file">{link}<code>{name}</code><span>{words}</span></div>'
