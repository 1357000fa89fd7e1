"""Pin and compare: a run kept as A beside the run in view, B."""

from __future__ import annotations

import html
import math

import streamlit as st

from mha_core import Trace, maps
from mha_core.compare import changed_fields, map_pair
from mha_core.figures.focus import cell_labels
from mha_core.figures.focus_html import Hover, map_html
from mha_core.figures.text import number, tinted_sizes
from mha_core.maps import Pooled, Scaled
from mha_core.palette import Palette
from mha_core.steps import NINE, map_name
from pages.shared import look, runs
from pages.shared.choice import Choice, Origin, Picture, Weights
from pages.shared.proof_section import proof_cards

LIMIT = 48  # cells a side of each of the three maps


def pin_button(choice: Choice) -> None:
    """Keeps the run in view as A, or lets it go."""
    pinned: Choice | None = st.session_state.get("pinned")
    if pinned is None:
        st.button(
            "Pin this run as A", key="pin", icon=":material/push_pin:", width="stretch",
            on_click=_pin, args=(choice,),
            help="Then change one thing: the run in view is B, and both are shown side by side.",
        )  # fmt: skip
    else:
        st.button(
            "Unpin A", key="unpin", icon=":material/close:", width="stretch",
            on_click=_pin, args=(None,),
        )  # fmt: skip


def _pin(choice: Choice | None) -> None:
    st.session_state["pinned"] = choice


def compare_section(choice: Choice) -> None:
    """A, B and B − A: settings, shapes, one head's maps, proofs. Nothing until one is pinned."""
    pinned: Choice | None = st.session_state.get("pinned")
    if pinned is None:
        return
    c = look.colours()
    a, b = runs.trace(pinned), runs.trace(choice)
    look.section("Compare", "A is the pinned run, B the run in view")
    st.html(look.block(_settings(pinned, choice)))
    if pinned == choice:
        return
    st.html(look.block(_shapes(a, b, c)))
    look.clickable(
        look.block(_maps(pinned, choice, a, b, c)), key="compare", on_pick=lambda _: None
    )
    for name, of in (("A", pinned), ("B", choice)):
        cards = proof_cards(runs.proofs(of))
        st.html(look.block(f'<div class="key">Proofs of {name}</div>{cards}'))


def _settings(a: Choice, b: Choice) -> str:
    pairs = changed_fields(a.config, b.config)
    if (a.tokens, a.origin) != (b.tokens, b.origin):
        pairs["input"] = (_input(a), _input(b))
    if not pairs:
        return '<div class="key">A and B are the same run: change one thing in the sidebar.</div>'
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{_value(name, x)}</td><td>{_value(name, y)}</td></tr>"
        for name, (x, y) in pairs.items()
    )
    head = "<tr><th>changed</th><th>A</th><th>B</th></tr>"
    return f'<div class="stats pair"><table>{head}{rows}</table></div>'


def _input(choice: Choice) -> str:
    match choice.origin:
        case Origin(name=name, layer=layer, texts=texts, pair=pair):
            words = " | ".join((*texts, *([pair] if pair else [])))
            return f"{name}, layer {layer}: {words}"
        case Picture(name=name, layer=layer):
            return f"{name}, layer {layer}"
        case Weights(file=file, prefix=prefix):
            return f"{file} {prefix}: {_words(choice)}"
    return _words(choice)


def _words(choice: Choice) -> str:
    return "random" if choice.tokens is None else " ".join(choice.tokens)


def _value(name: str, value: object) -> str:
    if name == "scale":
        return "1/√d_k" if value is None else f"{value:.4g}"
    if isinstance(value, float) and math.isinf(value):
        return "−∞"
    return html.escape(str(value))


def _shapes(a: Trace, b: Trace, c: Palette) -> str:
    """The steps whose output differs in shape or memory; one line where none does."""
    rows = ""
    for step in NINE:
        x, y = a[step], b[step]
        if (x.shape, x.nbytes, x.storage) == (y.shape, y.nbytes, y.storage):
            continue
        cells = "".join(
            f"<td><span class='mono'>{tinted_sizes(one.shape, one.spec.output, c)}</span></td>"
            f"<td>{one.nbytes:,} B {one.storage}</td>"
            for one in (x, y)
        )
        rows += f"<tr><td>{x.number} {html.escape(x.spec.operation)}</td>{cells}</tr>"
    if not rows:
        return '<div class="key">Every step has the same shape and memory in A and B.</div>'
    head = "<th>step</th><th>A</th><th></th><th>B</th><th></th>"
    return f'<div class="stats pair"><table><tr>{head}</tr>{rows}</table></div>'


def _maps(a_choice: Choice, b_choice: Choice, a: Trace, b: Trace, c: Palette) -> str:
    step = _common_step(a, b)
    item = min(st.session_state.get("w_item", 0), a.config.batch - 1, b.config.batch - 1)
    head = min(st.session_state.get("head", 0), a.config.heads - 1, b.config.heads - 1)
    pair = map_pair(
        maps.head_maps(a, step, item).head(head),
        maps.head_maps(b, step, item).head(head),
        limit=LIMIT,
    )
    name = map_name(step)
    pieces = [
        _one(f"A: {name}", pair.shared[0], pair.pooled[0], a_choice, item, name, c),
        _one(f"B: {name}", pair.shared[1], pair.pooled[1], b_choice, item, name, c),
    ]
    if pair.difference is None:
        pieces.append(
            f'<div class="key">B − A is not defined: A has time {a.config.time}, '
            f"B has time {b.config.time}.</div>"
        )
    else:
        title = f"B − A, largest {number(pair.largest or 0.0, 3)}"
        pieces.append(_one(title, pair.difference, pair.pooled[1], b_choice, item, "B − A", c))
    body = "".join(f"<div>{piece}</div>" for piece in pieces)
    return (
        f'<div class="key" style="margin-bottom:8px">head {head} of batch item {item}; '
        f'chosen under Heads, like the step</div><div class="triple">{body}</div>'
    )


def _common_step(a: Trace, b: Trace) -> str:
    wanted = st.session_state.get("w_map_step", "weights")
    steps = {map_name(step.id): step.id for step in b.steps if step.spec.output[-1] == "time"}
    step = steps.get(wanted, "softmax")
    return step if step in a else "softmax"


def _one(
    title: str, scaled: Scaled, pooled: Pooled, choice: Choice, item: int, name: str, c: Palette
) -> str:
    pre = "" if pooled.factor == 1 else f"{pooled.how} "
    hover = Hover(cell_labels(pooled, choice.labels(item)), pre + name, ranges=pooled.factor > 1)
    note = (
        "" if pooled.factor == 1 else f", {pooled.how} of {pooled.factor} × {pooled.factor} cells"
    )
    picture = map_html(scaled, 0, hover, colours=c, alt=title)
    return f'<div class="focus-head plain"><b>{title}</b><span>{note}</span></div>{picture}'
