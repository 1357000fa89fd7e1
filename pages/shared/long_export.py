"""Exact maps of any length as a file: how large it is, then written with progress, then fetched."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mha_core import MHAConfig
from mha_core.errors import ConfigError, human_bytes
from mha_core.export import Selection, disk, file_name
from mha_core.export import stem as selection_stem
from mha_core.export.selection import Progress
from mha_core.export.stream import FORMS, Form, Stream, about
from pages.shared import downloads, look
from pages.shared.downloads import Offer, State
from pages.shared.held import Preparing, drop, held, prepare

# Tensors, heads and batch items -> the streams, of which nothing is computed yet.
Streams = Callable[[tuple[str, ...], tuple[int, ...], tuple[int, ...]], Sequence[Stream]]

_PATIENCE = 0.6  # seconds within which writing shows no progress
_LOOK = 1.0  # seconds between two looks at what is being written
_ASK = 2.0  # ... and at a file that waits or is being sent


@dataclass(frozen=True)
class _Order:
    """A file that can be written."""

    form: Form
    streams: tuple[Stream, ...]
    metadata: dict[str, Any]
    name: str
    size: int

    def write(self, file: IO[bytes], progress: Progress) -> None:
        self.form.write(file, self.streams, self.metadata, progress)


def long_export(
    config: MHAConfig,
    offered: Sequence[str],
    streams: Streams,
    *,
    tokens: Sequence[str] | None = None,
    head: int | None = None,
) -> None:
    """What to write; what becomes of it is told by `long_status`. The page can be used meanwhile.

    It may stand in a fragment.

    Args:
        config: of the run; gives the ranges of heads and batch items, and the file its name.
        offered: tensors one can choose, by their names: scores, scaled, masked, weights.
        streams: makes the streams of what was chosen; called at each run, so it computes nothing.
            Their blocks are asked for in another thread, which may not use Streamlit.
        tokens: one a position.
        head: chosen at first; None for all.
    """
    form, selection = _choose(config, offered, head)
    said, button = st.container(), st.container()
    before = held()
    order: _Order | None = None
    with said:
        try:
            made = _order(config, form, selection, streams, tokens)
            st.html(look.block(_size_html(made)))
            disk.check(made.size, disk.folder(), freed=0 if before is None else before.room)
            order = made
        except ConfigError as error:
            st.error(look.safe(str(error)), icon=":material/error:")
    wanted = button.button(
        "Prepare the file", key="w_long_prepare", type="primary", disabled=order is None
    )
    if wanted and order is not None:
        try:
            prepare(order.name, order.form.mime, order.size, order.write).wait(_PATIENCE)
        except ConfigError as error:  # the disk has filled meanwhile
            said.error(look.safe(str(error)), icon=":material/error:")
        else:
            st.rerun()  # for the place that tells of it


def long_status() -> None:
    """How far the session's file is, or what has become of it; looks by itself while it changes.

    Not to be called in a fragment: Streamlit can lose what surrounds a fragment in another when the
    outer one runs twice at once, and the browser then shows nothing any more.
    """
    pace = _pace(held())
    with st.container(key="long_status"):
        # Always the same fragment, at whatever pace: a late look finds it.
        st.fragment(_status, run_every=pace)(pace)


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
        f"<span>{str(one.dtype).removeprefix('torch.')}</span> "
        f"<span>{human_bytes(one.nbytes)}</span></li>"
        for one in order.streams
    )
    return (
        f'<div class="long-size"><p><b>{human_bytes(order.size)}</b> '
        f"<span>{order.size:,} bytes, exact values, none pooled</span></p><ul>{parts}</ul></div>"
    )


def _duration(seconds: float) -> str:
    """About how long, in words."""
    if seconds < 60:
        return f"about {max(1, round(seconds))} s"
    if seconds < 3600:
        return f"about {round(seconds / 60)} min"
    return f"about {seconds / 3600:.1f} h"


def _pace(file: Preparing | None) -> float | None:
    """Seconds between two looks at the file, since no click tells; None where nothing changes."""
    if file is None or file.failure is not None:
        return None
    if file.running:
        return _LOOK
    waits = file.offer is not None and file.offer.state in (State.READY, State.SENDING)
    return _ASK if waits else None


def _status(pace: float | None) -> None:
    """How far the file is, or what has become of it."""
    file = held()
    if _pace(file) != pace:
        st.rerun()
    if file is None:
        return
    if file.failure is not None:
        drop()  # said once
        raise file.failure
    if file.running:
        _writing(file)
    elif file.error is not None:
        st.error(look.safe(str(file.error)), icon=":material/error:")
        _put_away("Close")
    elif file.offer is None or file.cancelled:
        st.info(f"Cancelled: nothing of `{file.name}` is kept.", icon=":material/info:")
        _put_away("Close")
    else:
        st.html(look.block(_file_html(file.offer)))
        if file.offer.state is not State.SENDING:
            _put_away("Discard" if file.offer.state is State.READY else "Close")


def _put_away(label: str) -> None:
    """A button after which nothing is said of the file any more."""
    if st.button(label, key="w_long_discard", type="tertiary"):
        drop()
        st.rerun()


def _writing(file: Preparing) -> None:
    left = file.seconds_left()
    about = "" if left is None else f", {_duration(left)} left"
    with st.container(horizontal=True, vertical_alignment="center", key="long_progress"):
        st.progress(min(1.0, file.share), f"{file.what or 'starting'}{about}")
        if st.button("Cancel", key="w_long_cancel"):
            file.give_up()
            file.wait(_PATIENCE)
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
