"""The maps page: what is shown is what ran, however it is ordered, cut, compared or looked at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

from mha_core import MHAConfig, Trace, trace_forward
from mha_core.head_stats import head_stats
from mha_core.maps import Pooled, head_maps, pool
from pages.shared import maps_export
from tests.pages.maps_page import compared, focus, open_page, settle, tiles, told
from tests.pages.own import attention, give, npz, open_source
from tests.pages.support import components, piece, pieces, said, set_state, text

SIZES = {"batch": 2, "time": 9, "d_model": 32, "heads": 4, "causal": 1}


def ran(**changes: int) -> Trace:
    return trace_forward(MHAConfig(**(SIZES | {"causal": True} | changes)))  # type: ignore[arg-type]


def same(shown: np.ndarray, expected: torch.Tensor | np.ndarray) -> bool:
    return bool(np.array_equal(shown, np.asarray(expected, dtype=np.float32), equal_nan=True))


def choose(at: AppTest, **widgets: str) -> AppTest:
    for key, value in widgets.items():
        at.selectbox(key=f"w_{key}").set_value(value)
    return settle(at)


def zoom(at: AppTest, queries: str, keys: str) -> AppTest:
    at.text_input(key="w_queries").set_value(queries)
    at.text_input(key="w_keys").set_value(keys)
    return settle(at)


def test_the_focus_is_the_head_of_the_run() -> None:
    at = open_page(**SIZES)
    weights = ran().weights[0, 0].clone()
    weights[torch.ones(9, 9).triu(1).bool()] = torch.nan
    assert same(focus(at), weights)
    assert [head for head, _ in tiles(at)] == [0, 1, 2, 3]
    set_state(at, head=2)
    assert same(np.nan_to_num(focus(at)), ran().weights[0, 2])


@pytest.mark.parametrize("step", ["scores", "scaled", "masked"])
def test_every_step_is_the_tensor_of_that_step(step: str) -> None:
    at = set_state(open_page(**SIZES), w_map_step=step)
    ids = {"scores": "scores", "scaled": "scale", "masked": "mask"}
    expected = ran().tensor(ids[step])[0, 0]
    assert same(focus(at), expected.masked_fill(expected.isneginf(), torch.nan))


def test_heads_in_the_order_of_a_statistic() -> None:
    stats = head_stats(head_maps(ran()))
    at = choose(open_page(**SIZES), order="entropy")
    order = sorted(range(4), key=lambda head: -stats.entropy[head])
    assert [head for head, _ in tiles(at)] == order
    assert [said for _, said in tiles(at)] == [f"{stats.entropy[n]:.3g} nats" for n in order]
    at.toggle(key="w_descending").set_value(False)
    assert [head for head, _ in tiles(settle(at))] == order[::-1]
    at = choose(at, order="share on first")
    first = [f"{100 * stats.first[n]:.1f} %" for n in sorted(range(4), key=stats.first.__getitem__)]
    assert [said for _, said in tiles(at)] == first


def test_a_typed_window_is_exactly_that_part() -> None:
    at = zoom(open_page(**SIZES), "4–7", "1–3")
    assert same(focus(at), ran().weights[0, 0, 4:8, 1:4])
    assert told(at)["rows"] == ["4", "5", "6", "7"]
    at = zoom(at, "5", "2–3")
    assert same(focus(at), ran().weights[0, 0, 5:6, 2:4])
    at.button(key="w_zoom_back").click()
    assert focus(settle(at)).shape == (4, 3)
    assert at.text_input(key="w_queries").value == "4–7"
    at.button(key="w_zoom_reset").click()
    assert focus(settle(at)).shape == (9, 9)
    assert at.text_input(key="w_queries").value == ""


@pytest.mark.parametrize(
    ("queries", "rule"),
    [("7–4", "reversed"), ("4–9", "within 0–8"), ("<img>", "two positions"), ("-3", "within")],
)
def test_a_bad_range_is_told_and_the_window_stays(queries: str, rule: str) -> None:
    at = zoom(open_page(**SIZES), "4–7", "1–3")
    at = zoom(at, queries, "1–3")
    assert rule in said(at)
    assert focus(at).shape == (4, 3)
    assert at.text_input(key="w_queries").value == queries
    at = zoom(at, "0–1", "1–3")
    assert not at.error
    assert focus(at).shape == (2, 3)


def test_another_run_is_seen_whole() -> None:
    at = zoom(open_page(**SIZES), "4–7", "1–3")
    at.number_input(key="w_time#exact").set_value(6)
    assert focus(settle(at)).shape == (6, 6)


def test_pooling_is_said_and_zooming_ends_it() -> None:
    at = open_page(batch=1, time=200, d_model=32, heads=4)
    trace = trace_forward(MHAConfig(batch=1, time=200, d_model=32, heads=4))
    assert same(focus(at), pool(head_maps(trace), 96).values[0])
    assert "each cell: max of 3 × 3 weights; zoom in for single ones" in pieces_text(at)
    at = choose(at, pooling="mean")
    assert same(focus(at), pool(head_maps(trace), 96, "mean").values[0])
    at = zoom(at, "100–195", "0–95")
    assert same(focus(at), trace.weights[0, 0, 100:196, :96])
    assert "each cell" not in pieces_text(at)


def pieces_text(at: AppTest) -> str:
    return " ".join(text(one) for one in pieces(at))


def test_two_heads_and_their_difference() -> None:
    at = choose(open_page(**SIZES), compare="another head")
    at.number_input(key="w_other").set_value(3)
    at = zoom(at, "5–8", "0–4")
    a, b = (ran().weights[0, head, 5:9, :5] for head in (0, 3))
    shown = compared(at)
    assert same(shown[0], a)
    assert same(shown[1], b)
    assert same(shown[2], b - a)


@pytest.mark.parametrize("causal", [0, 1])
def test_causal_against_full(causal: int) -> None:
    at = choose(open_page(**(SIZES | {"causal": causal})), compare="causal against full")
    this, other = (
        np.nan_to_num(ran(causal=turned).weights[0, 0].numpy())
        for turned in (bool(causal), not causal)
    )
    shown = [np.nan_to_num(one) for one in compared(at)]
    assert same(shown[0], this)
    assert np.abs(shown[1] - other).max() < 1e-6
    assert np.abs(shown[2] - (other - this)).max() < 1e-6


def test_before_and_after_the_mask_and_scores_against_weights() -> None:
    at = choose(open_page(**SIZES), compare="before the mask")
    before, after = compared(at)[:2]
    assert same(before, ran().tensor("scale")[0, 0])
    assert same(np.nan_to_num(after), ran().tensor("scale")[0, 0].tril())
    at = choose(at, compare="scores")
    assert same(np.nan_to_num(compared(at)[1]), ran().weights[0, 0])
    assert len(compared(at)) == 2
    assert "not defined" in piece(at, "patch-trio")
    at = open_page(**(SIZES | {"causal": 0}))
    assert "before the mask" not in at.selectbox(key="w_compare").options


@pytest.mark.parametrize(("kind", "axis"), [("query", 0), ("key", 1)])
def test_one_query_and_one_key(kind: str, axis: int) -> None:
    at = set_state(open_page(**SIZES), w_line=kind)
    at.number_input(key="w_position").set_value(6)
    body = piece(settle(at), "line-view")
    line = ran().weights[0, 0].select(axis, 6)
    assert f"<b>{kind} 6</b>" in body
    strongest = int(line.argmax())
    assert f"<td>{strongest}</td>" in body
    assert ("running sum" in body) is (kind == "query")


def test_the_words_of_a_text_label_everything() -> None:
    at = open_page(input="text", text="to be <or> not to be")
    assert [text(name) for name in told(at)["rows"]][2].endswith("<or>”") or "<or>" in text(
        told(at)["rows"][2]
    )
    at.number_input(key="w_position").set_value(2)
    body = piece(settle(at), "line-view")
    assert "&lt;or&gt;" in body
    assert "<or>" not in body


def test_maps_of_ones_own() -> None:
    given = attention(2, 3, 5, 5)
    at = open_source("maps", open_page())
    at = give(at, "maps", "a.npz", npz(given))
    assert same(np.nan_to_num(focus(at)), given[0, 0])
    at = choose(at, compare="another head")
    assert "causal against full" not in at.selectbox(key="w_compare").options
    at = zoom(at, "1–3", "0–1")
    assert same(np.nan_to_num(focus(at)), given[0, 0, 1:4, :2])


def test_a_real_model_without_its_special_tokens() -> None:
    at = open_page(source="minilm", sentences="The animal slept.")
    assert "[CLS]" in told(at)["rows"][0]
    whole = focus(at)
    at.toggle(key="w_plain").set_value(True)
    plain = focus(settle(at))
    assert plain.shape == (whole.shape[0] - 2,) * 2
    assert np.allclose(plain.sum(-1), 1.0, atol=1e-5)
    assert "animal" in told(at)["rows"][1]
    at = choose(at, compare="causal against full")
    full, causal = compared(at)[:2]
    assert np.allclose(full, plain)
    assert np.isnan(causal[0, 1:]).all()
    assert np.allclose(np.nansum(causal, -1), 1.0, atol=1e-5)


def test_the_sheet_of_all_heads() -> None:
    at = set_state(open_page(**SIZES), w_maps_export=True)
    at.button(key="w_sheet_make").click()
    settle(at)
    (button,) = [one for one in at.get("download_button") if "sheet" in one.label]
    assert button.label.startswith("Download attention_b2_t9")
    assert ".pdf" in button.label


@pytest.mark.parametrize(
    ("query", "offered"),
    [({"time": 9}, None), ({"time": 200}, [96, 200]), ({"time": 700}, [96, 256, 512, 700]),
     ({"time": 2048, "batch": 1}, [96, 256, 512, 1024])],
    ids=str,
)  # fmt: skip
def test_the_resolution_of_the_sheet(query: dict[str, int], offered: list[int] | None) -> None:
    at = set_state(open_page(**(SIZES | query)), w_maps_export=True)
    boxes = [box for box in at.selectbox if box.key == "w_sheet_cells"]
    assert [box.options for box in boxes] == ([] if offered is None else [list(map(str, offered))])


def test_a_finer_sheet_is_pooled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    sides = []
    made = maps_export.contact_sheet

    def noted(pooled: Pooled, *rest: Any, **named: Any) -> bytes:
        sides.append(pooled.values.shape[-1])
        return made(pooled, *rest, **named)

    monkeypatch.setattr(maps_export, "contact_sheet", noted)
    at = set_state(open_page(**(SIZES | {"time": 200})), w_maps_export=True)
    at.button(key="w_sheet_make").click()
    settle(at)
    at.selectbox(key="w_sheet_cells").set_value(200)
    settle(at)
    assert not [one for one in at.get("download_button") if "sheet" in one.label]
    at.button(key="w_sheet_make").click()
    settle(at)
    assert sides == [67, 200]
    assert [one for one in at.get("download_button") if "sheet" in one.label]


def test_components_of_the_page() -> None:
    found = components(open_page(**SIZES))
    assert {"heads", "focus"} <= set(found)
    size = sum(len(str(data)) for data in found.values())
    assert size < 250_000
