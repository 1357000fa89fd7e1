"""Attention over a picture in HTML: told in words, chosen by mouse or keyboard."""

from __future__ import annotations

import base64
import html.parser
import io

import numpy as np
import pytest
from PIL import Image

from mha_core.figures.overlay import PATCHES, SIDE, on_picture, paint
from mha_core.figures.overlay_html import overlay_html, overlay_tiles, patch_pick
from mha_core.palette import DARK, LIGHT


def noise():
    return Image.fromarray(np.random.default_rng(1).integers(0, 256, (99, 131, 3), dtype=np.uint8))


def random_row(seed=0, *, count=PATCHES + 1):
    return np.random.default_rng(seed).dirichlet(np.full(count, 0.2)).astype(np.float32)


def pixels(image):
    return np.asarray(image.convert("RGB")).astype(int)


class Elements(html.parser.HTMLParser):
    """Every element with its attributes, in order."""

    def __init__(self, text):
        super().__init__()
        self.found, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def picks(self):
        return [attrs for _, attrs in self.found if "data-pick" in attrs]

    def images(self):
        return [attrs for tag, attrs in self.found if tag == "img"]


def shown_html(**changes):
    how = {"colours": LIGHT, "head": 3, "alt": "a cat", **changes}
    return Elements(overlay_html(noise(), random_row(), **how))


@pytest.mark.parametrize("patch", [None, 0, 37, 255])
def test_every_patch_can_be_chosen_and_there_is_one_stop_of_the_tab_key(patch):
    picks = shown_html(patch=patch).picks()
    assert [p["data-pick"] for p in picks] == ["cls", *(f"patch:{i}" for i in range(PATCHES))]
    wanted = "cls" if patch is None else f"patch:{patch}"
    assert [p["data-pick"] for p in picks if p["tabindex"] == "0"] == [wanted]
    assert [p["data-pick"] for p in picks if p["aria-checked"] == "true"] == [wanted]
    assert all(p["role"] == "radio" and p["aria-label"] for p in picks)


def test_what_is_picked_is_read_back():
    assert [patch_pick(f"patch:{i}") for i in range(PATCHES)] == list(range(PATCHES))
    for other in ("cls", "patch:256", "patch:-1", "patch:", "patch:²", "head:3", "", "patch:1e1"):
        assert patch_pick(other) is None


def test_a_patch_tells_its_place_and_weight():
    row = np.zeros(PATCHES + 1)
    row[1 + 2 * SIDE + 5] = 0.1234
    row[0] = 0.8766
    found = Elements(overlay_html(noise(), row, colours=DARK, head=0, alt=""))
    labels = [p["aria-label"] for p in found.picks()]
    assert labels[1 + 2 * SIDE + 5] == "patch 2,5 · 0.123"
    assert "87.7 % of the weight is on [CLS]" in found.text
    assert "in 1 of 256 patches" in found.text
    assert "most weight on patch 2,5 (0.123)" in found.images()[0]["alt"]


def test_a_row_without_cls_says_nothing_of_it():
    found = Elements(
        overlay_html(noise(), random_row(count=PATCHES), colours=LIGHT, head=0, alt="")
    )
    assert "of the weight is on" not in found.text


def test_the_alternative_text_is_escaped():
    text = '"><script>alert(1)</script>'
    found = shown_html(alt=text)
    assert not [tag for tag, _ in found.found if tag == "script"]
    assert found.images()[0]["alt"].startswith(text)


@pytest.mark.parametrize("chosen", [None, 4, 99])
def test_tiles_show_every_head_and_can_be_chosen(chosen):
    rows = np.stack([random_row(head) for head in range(7)])
    found = Elements(overlay_tiles(noise(), rows, colours=LIGHT, chosen=chosen))
    picks = found.picks()
    assert [p["data-pick"] for p in picks] == [f"head:{head}" for head in range(7)]
    assert len([p for p in picks if p["tabindex"] == "0"]) == 1
    checked = [p["data-pick"] for p in picks if p["aria-checked"] == "true"]
    assert checked == (["head:4"] if chosen == 4 else [])
    for head, (pick, image) in enumerate(zip(picks, found.images(), strict=True)):
        assert (
            f"{100 * rows[head, 0]:.1f} %" in pick["aria-label"] or "< 0.1 %" in pick["aria-label"]
        )
        assert LIGHT.head(head) in pick["style"]
        data = base64.b64decode(image["src"].partition(",")[2])
        alone = paint(noise(), on_picture(rows[head]), colours=LIGHT, side=224)
        assert np.abs(pixels(Image.open(io.BytesIO(data))) - pixels(alone)).mean() < 8


def test_what_is_sent_is_bounded_on_the_hardest_picture():
    """Noise, which no format compresses: the page still gets less than a photograph."""
    assert len(overlay_html(noise(), random_row(), colours=LIGHT, head=0, alt="")) < 400_000
