"""The mask from form to form, and in each library's words, each handed to the real library."""

from __future__ import annotations

import streamlit as st

from mha_core.figures.mask_words import pair_html, words_html
from mha_core.mask_lab import build
from mha_core.mask_lab.check import Checked, check
from mha_core.mask_lab.forms import FORMS, convert, line
from mha_core.mask_lab.lab import Lab
from mha_core.mask_lab.words import MHA, SDPA, Word, words
from pages.shared import look, runs
from pages.shared.choice import Choice
from pages.shared.masks_export import words_export
from pages.shared.masks_state import note, spec_of, widget


def convert_section(choice: Choice, lab: Lab) -> None:
    """One conversion at a time, then all words with their checks."""
    spec, error = spec_of(choice, lab)
    if error is not None:
        st.error(look.safe(f"{error} The last mask that could be built is shown."),
                 icon=":material/error:")  # fmt: skip
    keep = build.keep(spec)
    look.section("From form to form", "the mask of Build, of its first batch item")
    have, need = _forms()
    before = convert(keep, "keep", have, dtype=lab.x.dtype)
    after = convert(before, have, need, dtype=lab.x.dtype)
    st.html(look.block(pair_html(before, after, line(have, need), (have, need))))

    device = lab.x.device
    found = words(
        build.pattern(spec, device=device),
        build.padding(spec, device=device),
        batch=lab.batch,
        heads=lab.heads,
        dtype=lab.x.dtype,
    )
    look.section(
        "In each library's words",
        "each handed to the real library, its weights against ours" + _also(lab),
    )
    blind = len(build.blind_rows(keep))
    place = st.empty()
    checks = _checks(choice, lab, found, place, blind)
    words_export(choice, found, checks)


def _forms() -> tuple[str, str]:
    one, two = st.columns(2)
    chosen = []
    for column, name, title in ((one, "have", "I have"), (two, "need", "I need")):
        key, changed = widget(name)
        column.selectbox(
            title, list(FORMS), key=key, on_change=changed,
            format_func=lambda form: f"{FORMS[form].title}: {FORMS[form].meaning}",
        )  # fmt: skip
        chosen.append(st.session_state[key])
    return chosen[0], chosen[1]


def _also(lab: Lab) -> str:
    return f" · {note(lab)}" if note(lab) else ""


def _checks(
    choice: Choice,
    lab: Lab,
    found: list[Word],
    place: st.delta_generator.DeltaGenerator,
    blind: int,
) -> dict[str, Checked | None]:
    """Runs each library once for a mask; what is known is painted before the rest runs."""
    spec, _ = spec_of(choice, lab)
    keep = build.keep(spec, device=lab.x.device)
    fits = [word for word in found if word.given]

    def paint(checks: dict[str, Checked | None]) -> None:
        place.html(look.block(words_html(found, checks, blind=blind)))

    def run() -> dict[str, Checked | None]:
        checks: dict[str, Checked | None] = {word.id: None for word in fits}
        # transformers takes a second or two to load: torch's own come first.
        for libraries in ((SDPA, MHA), None):
            paint(checks)
            look.let_paint()
            for word in fits:
                if libraries is None or word.library in libraries:
                    checks[word.id] = checks[word.id] or check(lab, keep, word)
        return checks

    checks: dict[str, Checked | None] = runs.derived(choice, ("mask words", spec), run)
    paint(checks)
    return checks
