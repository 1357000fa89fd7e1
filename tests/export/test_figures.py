"""PNG, SVG and PDF: right colours in the right cells, text as text, the same bytes twice."""

import io
import threading
import warnings
import xml.etree.ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest
import torch
from PIL import Image
from pypdf import PdfReader

from mha_core import trace_forward
from mha_core.export import FORMATS, Selection
from mha_core.head_stats import keys_text
from mha_core.maps import SCALES, HeadMaps, head_maps, scaled
from mha_core.palette import palette, rgb
from tests.export.support import HEADS, ODD, TIME, config, overflowing, traced

ONE = Selection(heads=(2,), items=(0,))
SVG = "{http://www.w3.org/2000/svg}"


def pixels(data: bytes) -> np.ndarray:
    image = Image.open(io.BytesIO(data))
    image.load()
    return np.asarray(image.convert("RGB"))


def area(picture: np.ndarray, colour: str) -> int:
    return int((picture == rgb(colour)).all(-1).sum())


def texts(data: bytes) -> list[str]:
    return ["".join(node.itertext()).strip() for node in ET.fromstring(data).iter(f"{SVG}text")]


def test_png_decodes_and_light_differs_from_dark() -> None:
    light = pixels(FORMATS["png"].build(traced(), ONE))
    dark = pixels(FORMATS["png"].build(traced(), ONE, mode="dark"))
    assert light.shape == dark.shape
    assert len(np.unique(light.reshape(-1, 3), axis=0)) > 50
    for picture, mode in ((light, "light"), (dark, "dark")):
        ground = area(picture, palette(mode).background)
        assert ground > picture.shape[0] * picture.shape[1] / 3


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_the_first_causal_weight_is_1_and_has_the_last_colour_of_the_scale(mode: str) -> None:
    picture = pixels(FORMATS["png"].build(traced(), ONE, mode=mode))
    top = area(picture, palette(mode).sequential[-1])
    cell = (4.4 * 200 / TIME) ** 2
    # Query 0 sees key 0 alone. The rest of that colour is the end of the colour bar.
    assert 0.9 * cell < top < 1.2 * cell


@pytest.mark.parametrize(("time", "mode"), [(TIME, "light"), (TIME, "dark"), (40, "light")])
def test_every_cell_has_the_colour_of_its_own_weight(time: int, mode: str) -> None:
    # Squares up to 32 a side, pixels beyond: query from the top and key from the left in both.
    trace = trace_forward(config(time=time, batch=1), profile=False)
    picture = pixels(FORMATS["png"].build(trace, Selection(heads=(2,)), mode=mode))
    weights = trace.weights[0, 2].numpy()
    colours = palette(mode)
    # Where the map is: query 0 gives key 0 all of its weight, and no cell lies above or left.
    painted = (picture == rgb(colours.sequential[-1])).all(-1)
    top, left = np.argwhere(painted[:, : picture.shape[1] // 2]).min(0)
    pitch = 4.4 * 200 / time
    selected = head_maps(trace)
    assert selected.visible is not None
    one = HeadMaps("softmax", selected.values[2:3], selected.visible[2:3])
    end = float(scaled(one, time)[1].high[0])
    anchors = np.array([rgb(anchor) for anchor in colours.sequential])
    for query in range(time):
        for key in range(query + 1):
            place = min(1.0, weights[query, key] / end) * (len(anchors) - 1)
            stops = range(len(anchors))
            wanted = [np.interp(place, stops, anchors[:, channel]) for channel in range(3)]
            seen = picture[round(top + (query + 0.5) * pitch), round(left + (key + 0.5) * pitch)]
            assert np.abs(seen - wanted).max() < 3, (query, key)


def test_a_mean_weight_gets_the_colour_of_its_value() -> None:
    # Zero queries give an even spread: every cell is 1/TIME, the top of a scale that follows it.
    trace = trace_forward(config(causal=False), x=torch.zeros(2, TIME, 15), profile=False)
    picture = pixels(FORMATS["png"].build(trace, ONE))
    assert area(picture, palette("light").sequential[-1]) > 0.9 * (4.4 * 200) ** 2


def test_masked_cells_are_hatched_and_never_painted() -> None:
    selection = Selection(("scaled", "masked"), heads=(2,), items=(0,))
    hatch = palette("light").hatch
    both = pixels(FORMATS["png"].build(traced(), selection))
    unmasked = pixels(FORMATS["png"].build(traced(), Selection(("scaled",), (2,), (0,))))
    assert area(unmasked, hatch) == 0
    assert area(both, hatch) > 500
    half = both[both.shape[0] // 2 :]
    whole = 4.4 * 200
    painted = (whole / TIME) ** 2 * TIME * (TIME + 1) / 2
    ground = np.array(rgb(palette("light").background))
    colourful = (np.abs(half.astype(int) - ground).max(-1) > 5) & (half.std(-1) > 4)
    # The cells of the lower triangle and the colour bar: nothing in the upper triangle.
    assert colourful.sum() < painted + 0.13 * 2.6 * 200**2 + 15_000


def test_svg_is_xml_with_its_tokens_as_text() -> None:
    shown = texts(FORMATS["svg"].build(traced(), ONE, tokens=ODD))
    for token in ODD:
        assert shown.count(token) == 2 * ODD.count(token), token
    assert {"query", "key", "head 2", "Attention weights, batch item 0"} <= set(shown)
    assert any(text.endswith(" keys") for text in shown)


def test_svg_has_a_role_and_a_label() -> None:
    root = ET.fromstring(FORMATS["svg"].build(traced(), ONE))
    assert root.get("role") == "img"
    assert "head 2 of batch item 0" in (root.get("aria-label") or "")
    assert "causal" in (root.get("aria-label") or "")


def test_svg_keeps_letters_that_no_font_here_has() -> None:
    rare = "\U00013000"  # an Egyptian hieroglyph
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rare in texts(FORMATS["svg"].build(traced(), ONE, tokens=[rare, *"abcdef"]))


@pytest.mark.parametrize("name", ["png", "pdf"])
def test_letters_that_no_font_here_has_neither_warn_nor_crash(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tokens = ["\U00013000", "$", "$$x", "\\alpha", "👩‍👧", "\ud800", ""]
        assert len(FORMATS[name].build(traced(), ONE, tokens=tokens)) > 1000


def test_pdf_has_a_page_for_each_tensor_and_item() -> None:
    data = FORMATS["pdf"].build(traced(), Selection(("scaled", "weights")), tokens=ODD)
    pages = [page.extract_text() for page in PdfReader(io.BytesIO(data)).pages]
    titles = ["Scaled scores", "Attention weights"]
    expected = [f"{title}, batch item {item}" for title in titles for item in (0, 1)]
    assert len(pages) == 4
    for text, title in zip(pages, expected, strict=True):
        assert title in text
        assert "head 4" in text
        assert "<b>x</b>" in text
    fonts = PdfReader(io.BytesIO(data)).pages[0]["/Resources"]["/Font"]
    kinds = {font.get_object()["/Subtype"] for font in fonts.get_object().values()}
    assert "/Type3" not in kinds


@pytest.mark.parametrize("name", ["png", "svg", "pdf"])
def test_equal_exports_are_equal_bytes(name: str) -> None:
    assert FORMATS[name].build(traced(), ONE) == FORMATS[name].build(traced(), ONE)


def test_threads_do_not_disturb_each_other_or_matplotlib() -> None:
    before = dict(mpl.rcParams)
    alone = {name: FORMATS[name].build(traced(), ONE) for name in ("png", "svg", "pdf")}
    together: dict[str, bytes] = {}

    def build(name: str) -> None:
        together[name] = FORMATS[name].build(traced(), ONE)

    threads = [threading.Thread(target=build, args=(name,)) for name in alone]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone
    assert dict(mpl.rcParams) == before


def test_what_a_user_set_in_matplotlib_does_not_show() -> None:
    plain = FORMATS["png"].build(traced(), ONE)
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "red", "savefig.dpi": 30}):
        assert FORMATS["png"].build(traced(), ONE) == plain


@pytest.mark.parametrize("scale", SCALES)
def test_the_colour_bar_says_the_scale(scale: str) -> None:
    shown = " ".join(texts(FORMATS["svg"].build(traced(), ONE, scale=scale)))
    said = {
        "weight": "weight",
        "× uniform": "weight × visible keys (1 = even)",
        "log": "log₁₀ weight",
        "per head": "weight, each head on its own scale",
    }[scale]
    for word in said.split():
        assert word in shown


def test_scores_have_a_scale_centred_at_zero() -> None:
    shown = texts(FORMATS["svg"].build(traced(), Selection(("scaled",), (2,), (0,))))
    largest = traced().tensor("scale")[0, 2].abs().max()
    end = f"{float(largest):.3g}"
    assert {end, f"−{end}", "0"} <= set(shown)


def test_the_effective_number_of_keys_is_that_of_the_weights() -> None:
    weights = traced().weights[0, 2].double()
    entropy = torch.special.entr(weights).sum(-1)
    assert keys_text(float(entropy.exp().mean())) in texts(FORMATS["svg"].build(traced(), ONE))


def test_a_large_map_is_pooled_and_says_so() -> None:
    trace = trace_forward(config(batch=1, time=300), profile=False)
    shown = " ".join(texts(FORMATS["svg"].build(trace, Selection(heads=(0,)))))
    assert "300 × 300 pooled 2 × 2 to 150 × 150: the max of each block" in shown
    assert "300 × 300" not in " ".join(texts(FORMATS["svg"].build(traced())))


@pytest.mark.parametrize("heads", [1, 6, 17])
def test_any_number_of_heads_has_a_place(heads: int) -> None:
    trace = trace_forward(
        config(batch=1, time=1, d_model=heads * 2, heads=heads, causal=False), profile=False
    )
    picture = pixels(FORMATS["png"].build(trace))
    shown = texts(FORMATS["svg"].build(trace))
    assert [text for text in shown if text.startswith("head ")] == [
        f"head {index}" for index in range(heads)
    ]
    # With one position every weight is 1.
    assert area(picture, palette("light").sequential[-1]) > heads * 200**2


def test_what_is_not_a_number_is_told_from_what_is_masked() -> None:
    trace = overflowing()
    data = FORMATS["svg"].build(trace, ONE)
    assert {"red: not a number", "hatched: masked, not zero"} <= {
        note for text in texts(data) for note in text.split(" · ")
    }
    picture = pixels(FORMATS["png"].build(trace, ONE))
    assert area(picture, palette("light").bad) > (4.4 * 200 / TIME) ** 2


def test_a_row_without_a_visible_key_is_drawn() -> None:
    keep = torch.ones(TIME, TIME, dtype=torch.bool)
    keep[2] = False
    trace = trace_forward(config(causal=False), mask=keep, profile=False)
    assert len(FORMATS["png"].build(trace, Selection(("masked", "weights"), (0,), (0,)))) > 1000


def test_all_heads_of_all_items_are_on_one_tall_picture() -> None:
    one = ET.fromstring(FORMATS["svg"].build(traced(), Selection(items=(0,))))
    both = FORMATS["svg"].build(traced())
    assert ET.fromstring(both).get("width") == one.get("width")
    tall, short = (
        float((root.get("height") or "").rstrip("pt")) for root in (ET.fromstring(both), one)
    )
    assert tall > 1.7 * short
    assert sum(text.startswith("head ") for text in texts(both)) == 2 * HEADS
