"""The reshape playground as a session sees it: what is typed, refused, chosen, kept, exported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from mha_core.reshape import plan_chain, plan_pattern, run
from mha_core.reshape.limits import MAX_NUMEL
from mha_core.reshape.presets import PRESETS
from tests.pages.support import address, click, component, piece, pieces, said, text
from tests.pages.support import run as rerun

PAGE = str(Path(__file__).parents[2] / "pages" / "7_Reshape_playground.py")


def open_page(**query: str) -> AppTest:
    at = AppTest.from_file(PAGE, default_timeout=120)
    for name, value in query.items():
        at.query_params[name] = value
    return rerun(at)


def enter(at: AppTest, **fields: str) -> AppTest:
    """Types into fields: pattern, chain, shape, axes."""
    for name, value in fields.items():
        box = at.text_area(key="rp_chain") if name == "chain" else at.text_input(key=f"rp_{name}")
        box.set_value(value)
    return rerun(at)


def line(at: AppTest) -> str:
    return text(piece(at, 'class="glance"'))


def rows(at: AppTest) -> str:
    return text(piece(at, "shapes rp"))


def refused(at: AppTest) -> str:
    found = [p for p in pieces(at) if "rp-error" in p]
    return text(found[0]) if found else ""


def stored(at: AppTest) -> dict[str, Any]:
    fields: dict[str, Any] = at.session_state["reshape"]
    return fields


def to_torch(at: AppTest) -> AppTest:
    at.button_group(key="rp_mode").set_value("torch")
    return rerun(at)


def test_it_opens_with_heads_split() -> None:
    at = open_page()
    assert "(2, 6, 32)" in line(at)
    assert "(2, 4, 6, 8)" in line(at)
    assert "same as einops.rearrange ✓" in line(at)
    assert "(192, 8, 32, 1)" in rows(at)
    assert refused(at) == ""
    player = component(at, "flow_chart")
    assert [scene["label"] for scene in player["scenes"]] == ["x", "view", "transpose"]
    assert player["start"] == "s2"
    assert address(at) == {
        "pattern": "b t (h d) -> b h t d", "shape": "2, 6, 32", "axes": "h=4", "colour": "out1",
        "element": "117",
    }  # fmt: skip
    again = open_page(**address(at))
    assert component(again, "flow_chart")["rev"] == component(at, "flow_chart")["rev"]


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_one_click_in_either_language(name: str) -> None:
    at = open_page()
    at.button_group(key="rp_preset").set_value(name)
    rerun(at)
    known = PRESETS[name]
    made = run(plan_pattern(known.pattern, known.shape, known.axes))
    assert str(made.steps[-1].shape) in line(at)
    assert str(made.steps[-1].strides) in rows(at)
    assert at.caption[0].value == known.about
    assert address(at)["pattern"] == known.pattern
    to_torch(at)
    assert refused(at) == ""
    assert str(made.steps[-1].strides) in rows(at)
    assert "chain" in address(at)
    other = "merge heads" if name == "split heads" else "split heads"
    at.button_group(key="rp_preset").set_value(other)
    rerun(at)
    assert refused(at) == ""
    assert stored(at)["mode"] == "torch"


def test_what_is_typed_runs() -> None:
    at = enter(open_page(), pattern="b t c -> c (t b)", axes="")
    assert "(32, 12)" in line(at)
    assert "1 copy" in line(at)
    at = enter(at, shape="3, 5, 7")
    assert "(7, 15)" in line(at)
    assert address(at) == {"pattern": "b t c -> c (t b)", "shape": "3, 5, 7", **_view(at)}


def _view(at: AppTest) -> dict[str, str]:
    """What the address has of the view beside what is typed."""
    return {k: v for k, v in address(at).items() if k in ("colour", "element", "step")}


def test_an_address_brings_it_all_back() -> None:
    at = open_page(chain="view(b, t, h, d).transpose(1, 2).reshape(b*h, t, d)", shape="b, t, h*d",
                   axes="b=2 t=3 h=4 d=5", element="47", step="2", colour="in1")  # fmt: skip
    made = run(plan_chain("view(2, 3, 4, 5).transpose(1, 2).reshape(8, 3, 5)", "2, 3, 20"))
    assert str(made.steps[-1].strides) in rows(at)
    player = component(at, "flow_chart")
    assert player["element"] == {"n": 47}
    assert player["start"] == "s2"
    again = open_page(**address(at))
    assert rows(again) == rows(at)
    assert component(again, "flow_chart")["rev"] == player["rev"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"pattern": "b t (h d -> b", "shape": "2, 6, 32"}, "pattern, character 5: this bracket"),
        ({"pattern": "b t -> t b", "shape": ""}, "b has no size"),
        ({"pattern": "b -> b", "shape": str(MAX_NUMEL + 1)}, "over the limit"),
        ({"pattern": "(" * 3000, "shape": "2"}, "3,000 characters"),
        ({"chain": "view(2, 6, 4, 8).transpose(1, 2).view(2, 6, 32)", "shape": "2, 6, 32"},
         "steps, character 34: torch refuses"),
    ],
)  # fmt: skip
def test_an_address_that_cannot_run_says_why_and_where(query: dict[str, str], words: str) -> None:
    at = open_page(**query)
    assert words in refused(at)
    assert not any('class="glance"' in p for p in pieces(at))
    at.button_group(key="rp_preset").set_value("merge heads")
    rerun(at)
    assert refused(at) == ""
    assert "(2, 6, 32)" in line(at)


def test_what_of_an_address_has_no_meaning_is_said() -> None:
    at = open_page(element="many", colour="![](http://x)", step="9" * 40)
    assert "`element=many`, which cannot be used" in said(at)
    assert "step=" in said(at)
    assert "(2, 4, 6, 8)" in line(at)
    at = enter(at, axes="h=8")
    assert said(at) == ""


def test_a_mistake_keeps_the_last_view_and_its_address_and_a_repair_mends_it() -> None:
    at = open_page()
    before = address(at)
    at = enter(at, pattern="b t (h d -> b h t d")
    assert "character 5: this bracket is not closed" in refused(at)
    assert "The last reshape that ran is shown" in said(at)
    assert "(2, 4, 6, 8)" in line(at)
    assert address(at) == before
    click(at, "Use `b t (h d) -> b h t d`")
    assert refused(at) == ""
    assert stored(at)["pattern"] == "b t (h d) -> b h t d"


def test_the_refused_view_offers_both_ways_out() -> None:
    at = to_torch(open_page())
    assert stored(at)["chain"] == "view(b, t, h, d).transpose(1, 2)"
    assert stored(at)["shape"] == "b, t, h*d"
    at = enter(at, chain="view(b, t, h, d).transpose(1, 2).view(b, t, h*d)")
    assert "torch refuses" in refused(at)
    assert "h must step 6 × 32 = 192 elements" in refused(at)
    offered = [button.label for button in at.button if button.label.startswith("Use")]
    assert len(offered) == 2
    click(at, offered[0])
    assert "copy 1.5 KiB" in rows(at)


def test_the_languages_translate_and_say_when_one_has_no_word_for_it() -> None:
    at = to_torch(open_page())
    at.button_group(key="rp_mode").set_value("einops")
    rerun(at)
    assert stored(at)["pattern"] == "b t (h d) -> b h t d"
    at = enter(to_torch(at), chain="view(4, 6).transpose(0, 1)", shape="6, 4", axes="")
    assert "no einops pattern" in line(at)
    at.button_group(key="rp_mode").set_value("einops")
    rerun(at)
    assert "No einops pattern says this" in said(at)
    assert stored(at)["mode"] == "torch"


def test_a_step_is_chosen_and_an_element_is_clamped() -> None:
    at = open_page(pattern="b t c -> t b c", shape="2, 3, 4", element="9999", step="0")
    assert component(at, "flow_chart")["element"] == {"n": 23}
    assert component(at, "flow_chart")["start"] == "x"
    assert "x = torch.arange(24).view(2, 3, 4)" in text(piece(at, 'class="lesson"'))


def test_the_colour_is_an_axis_of_either_end() -> None:
    at = open_page()
    box = at.selectbox(key="rp_colour")
    assert box.value == "out1"
    before = component(at, "flow_chart")["spec"]
    box.set_value("in2")
    rerun(at)
    assert address(at)["colour"] == "in2"
    assert "coloured by h" in before
    assert "coloured by (h d)" in component(at, "flow_chart")["spec"]
    at = enter(at, pattern="b t c -> (b t c)", axes="")
    assert at.selectbox(key="rp_colour").value == "in2"
    at = enter(at, pattern="c -> c", shape="3")
    assert at.selectbox(key="rp_colour").value in ("in0", "out0")


def test_files_and_code() -> None:
    at = open_page()
    at.session_state["rp_export"] = True
    at.session_state["w_code"] = True
    rerun(at)
    assert [button.label for button in at.get("download_button")]
    assert 'rearrange(x, "b t (h d) -> b h t d", h=4)' in at.code[0].value
    exec(at.code[0].value, {})  # it asserts what the page shows


def test_a_hostile_pattern_is_shown_as_text() -> None:
    hostile = "b <script>alert(1)</script> -> b"
    at = open_page(pattern=hostile, shape="2")
    assert "<script>" not in "".join(pieces(at))
    assert "“<” has no meaning here" in refused(at)
