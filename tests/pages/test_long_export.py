"""The panel for tensors of any length: sizes beforehand, the file, and every way it can end."""

from __future__ import annotations

import html
import io
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import streamlit as st
import torch
from safetensors.torch import load
from streamlit.testing.v1 import AppTest

from pages.shared import downloads
from pages.shared.downloads import Offer, Shelf, State
from pages.shared.held import Preparing
from tests.pages.support import pieces, run, said, text


def page() -> None:
    """A page with nothing but the panel, over maps that say where they come from."""
    from collections.abc import Iterable, Sequence

    import streamlit as st
    import torch
    from torch import Tensor

    from mha_core import ConfigError, MHAConfig
    from mha_core.export.stream import Stream, map_stream
    from pages.shared.long_export import long_export, long_status

    config = MHAConfig(batch=2, time=5, d_model=6, heads=3)
    halfway = st.session_state.get("halfway", lambda: None)

    def streams(
        names: tuple[str, ...], heads: tuple[int, ...], items: tuple[int, ...]
    ) -> Sequence[Stream]:
        def rows(name: str, item: int, head: int) -> Iterable[Tensor]:
            for query in range(config.time):
                if query == 3:
                    halfway()
                yield torch.full((1, 5), len(name) * 1000.0 + item * 100 + head * 10 + query)

        if st.session_state.get("refuse"):
            raise ConfigError("heads", 3, "too many for this test")
        return [
            map_stream(
                name, lambda item, head, name=name: rows(name, item, head),  # type: ignore[misc]
                items=items, heads=heads, time=config.time, dtype=torch.float32,
            )
            for name in names
        ]  # fmt: skip

    tokens = ("<b>", "the", "the", "", "é")
    long_export(config, ("scores", "weights"), streams, tokens=tokens, head=2)
    long_status()


@pytest.fixture(autouse=True)
def shelf(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shelf]:
    own = Shelf()
    monkeypatch.setattr(downloads, "shelf", own)
    monkeypatch.setattr("pages.shared.held.shelf", own)
    yield own
    assert len(own) <= 1


def opened() -> AppTest:
    return run(AppTest.from_function(page, default_timeout=60))


def begin(at: AppTest) -> Preparing:
    """Asks for the file, and returns while it may still be being written."""
    at.button(key="w_long_prepare").click()
    run(at)
    found: Preparing = at.session_state["held"]
    return found


def prepare(at: AppTest) -> AppTest:
    """Asks for the file, and waits until it has been written or has failed."""
    assert begin(at).wait(60)
    return run(at)


def offer(at: AppTest) -> Offer:
    found: Offer | None = at.session_state["held"].offer
    assert found is not None
    return found


def shown(at: AppTest, mark: str) -> str:
    """The piece of the panel with this class; "" where there is none."""
    return next((piece for piece in pieces(at) if f'class="{mark}"' in piece), "")


def stated(at: AppTest) -> int:
    """The size in bytes that the panel states."""
    found = re.search(r"([\d,]+) bytes", text(shown(at, "long-size")))
    assert found is not None
    return int(found[1].replace(",", ""))


def expected(name: str, items: tuple[int, ...], heads: tuple[int, ...]) -> torch.Tensor:
    cells = [
        [[[len(name) * 1000.0 + i * 100 + h * 10 + q] * 5 for q in range(5)] for h in heads]
        for i in items
    ]
    return torch.tensor(cells)


def test_the_size_is_stated_before_anything_is_written(shelf: Shelf) -> None:
    at = opened()
    assert "weights (2, 1, 5, 5) float32 200 B" in text(shown(at, "long-size"))
    assert shown(at, "long-file") == ""
    before = stated(at)
    assert len(shelf) == 0
    prepare(at)
    assert offer(at).size == before == offer(at).file.seek(0, io.SEEK_END)
    shelf.take_back(offer(at))


@pytest.mark.parametrize("form", ["npz", "npy", "safetensors"])
def test_the_file_holds_what_was_chosen(form: str, shelf: Shelf) -> None:
    at = opened()
    at.selectbox(key="w_long_format").set_value(form)
    at.multiselect(key="w_long_heads").set_value([2, 0])
    at.multiselect(key="w_long_batch items").set_value([1])
    if form != "npy":
        at.multiselect(key="w_long_tensors").set_value(["scores", "weights"])
    run(at)
    size = stated(at)
    prepare(at)
    one = offer(at)
    data = one.file.read()
    assert len(data) == size
    if form == "npy":
        arrays = {"weights": torch.from_numpy(np.load(io.BytesIO(data)))}
    elif form == "npz":
        with np.load(io.BytesIO(data)) as file:
            assert file["tokens"].tolist() == ["<b>", "the", "the", "", "é"]
            arrays = {key: torch.from_numpy(file[key]) for key in ("scores", "weights")}
    else:
        arrays = load(data)
    for name, values in arrays.items():
        assert torch.equal(values, expected(name, (1,), (0, 2))), name
    names = "weights" if form == "npy" else "scores-weights"
    pattern = rf"attention_b2_t5_d6_h3_seed0_text\w{{6}}_{names}_heads0-2_item1\.{form}"
    assert re.fullmatch(pattern, one.name)
    shelf.take_back(one)


def test_the_link_says_name_and_size(shelf: Shelf) -> None:
    at = prepare(opened())
    one = offer(at)
    link = shown(at, "long-file")
    assert f'href="/downloads/{one.token}"' in link
    assert f'download="{html.escape(one.name)}"' in link
    assert "within 10 minutes" in text(link)
    shelf.take_back(one)


def test_another_file_takes_the_place_of_the_one_before(shelf: Shelf) -> None:
    at = prepare(opened())
    first = offer(at)
    prepare(at)
    assert first.file.closed
    assert first.state is State.TAKEN_BACK
    assert len(shelf) == 1
    shelf.take_back(offer(at))


def test_discard_frees_it(shelf: Shelf) -> None:
    at = prepare(opened())
    one = offer(at)
    at.button(key="w_long_discard").click()
    run(at)
    assert one.file.closed
    assert len(shelf) == 0
    assert shown(at, "long-file") == ""


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (State.SENT, "Downloaded."),
        (State.BROKEN, "broken off at 50 %"),
        (State.EXPIRED, "not fetched in time"),
    ],
)
def test_what_has_become_of_it_is_said(state: State, words: str, shelf: Shelf) -> None:
    at = prepare(opened())
    one = shelf.take(offer(at).token)
    assert one is not None
    one.sent = one.size // 2
    run(at)
    assert "Being downloaded: 50 %" in text(shown(at, "long-file"))
    assert "href" not in shown(at, "long-file")
    downloads.end(one, state)
    run(at)
    assert words in text(shown(at, "long-file"))
    assert "href" not in shown(at, "long-file")
    at.button(key="w_long_discard").click()  # and put away
    assert shown(run(at), "long-file") == ""


# --- what ends an export ----------------------------------------------------------------------


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The temporary files that are made."""
    made: list[Any] = []
    real = tempfile.TemporaryFile

    def temporary(**options: Any) -> Any:
        made.append(real(**options))
        return made[-1]

    monkeypatch.setattr("pages.shared.held.tempfile", SimpleNamespace(TemporaryFile=temporary))
    return made


def raises(error: Exception) -> Callable[[], None]:
    def halfway() -> None:
        raise error

    return halfway


class Gate:
    """Where the writing stops until it is let on."""

    def __init__(self) -> None:
        self._reached, self._open = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self._reached.set()
        assert self._open.wait(60)

    def reached(self) -> None:
        assert self._reached.wait(60)

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.open()


def halfway(gate: Gate) -> tuple[AppTest, Preparing]:
    """The panel in the middle of writing."""
    at = opened()
    at.session_state["halfway"] = gate
    file = begin(at)
    gate.reached()
    run(at)
    return at, file


def test_how_far_it_is_is_said(gate: Gate, files: list[Any], shelf: Shelf) -> None:
    at, file = halfway(gate)
    bar = at.get("progress")[0].proto
    assert 0 < bar.value < 100
    assert bar.text.startswith("weights: ")
    assert " of " in bar.text
    assert [file.closed for file in files] == [False]
    gate.open()
    assert file.wait(60)
    run(at)
    assert at.get("progress") == []
    assert "Download" in shown(at, "long-file")
    shelf.take_back(offer(at))


def test_cancel_closes_the_file(gate: Gate, files: list[Any], shelf: Shelf) -> None:
    at, file = halfway(gate)
    at.button(key="w_long_cancel").click()
    run(at)
    gate.open()
    assert file.wait(60)
    run(at)
    assert "Cancelled: nothing of" in said(at)
    assert [file.closed for file in files] == [True]
    assert len(shelf) == 0
    at.session_state["halfway"] = lambda: None
    prepare(at)
    assert "Cancelled" not in said(at)
    assert [file.closed for file in files] == [True, False]
    shelf.take_back(offer(at))


def test_another_file_ends_the_writing_of_the_one_before(
    gate: Gate, files: list[Any], shelf: Shelf
) -> None:
    at, first = halfway(gate)
    at.session_state["halfway"] = lambda: None

    def let_on() -> None:
        while not first.cancelled:
            time.sleep(0.01)
        gate.open()

    threading.Thread(target=let_on, daemon=True).start()
    prepare(at)
    assert first.wait(60)
    assert first.offer is None
    assert [file.closed for file in files] == [True, False]
    assert len(shelf) == 1
    shelf.take_back(offer(at))


def test_a_cancel_at_the_very_end_takes_the_file_back(files: list[Any], shelf: Shelf) -> None:
    at = prepare(opened())
    file: Preparing = at.session_state["held"]
    file.give_up()
    assert [file.closed for file in files] == [True]
    assert len(shelf) == 0
    run(at)
    assert "Cancelled: nothing of" in said(at)


def test_a_session_that_goes_ends_the_writing(gate: Gate, files: list[Any], shelf: Shelf) -> None:
    shelf.grace = 0.05
    _, file = halfway(gate)
    st.cache_resource.clear()  # releases what is cached, as the end of a session does its own
    time.sleep(0.2)
    gate.open()
    assert file.wait(60)
    assert file.cancelled
    assert [file.closed for file in files] == [True]
    assert len(shelf) == 0


def test_a_session_that_comes_back_finds_it_written(
    gate: Gate, files: list[Any], shelf: Shelf
) -> None:
    shelf.grace = 0.05
    at, file = halfway(gate)
    st.cache_resource.clear()
    run(at)
    time.sleep(0.2)
    gate.open()
    assert file.wait(60)
    assert [file.closed for file in files] == [False]
    shelf.take_back(offer(at))


def test_a_fault_of_ours_is_not_hidden(files: list[Any], shelf: Shelf) -> None:
    at = opened()
    at.session_state["halfway"] = raises(RuntimeError("a fault"))
    at.button(key="w_long_prepare").click()
    at.run()
    assert len(at.exception) == 1
    assert [file.closed for file in files] == [True]
    assert len(shelf) == 0
    run(at)  # and the page goes on


def test_a_disk_that_fills_is_said(files: list[Any], shelf: Shelf) -> None:
    at = opened()
    at.session_state["halfway"] = raises(OSError(28, "No space left on device"))
    prepare(at)
    assert "disk='full': the file needs" in said(at)
    assert "free" in said(at)
    assert [file.closed for file in files] == [True]
    assert len(shelf) == 0


def test_a_disk_without_room_is_said_beforehand(
    monkeypatch: pytest.MonkeyPatch, files: list[Any]
) -> None:
    usage = SimpleNamespace(total=10**12, used=0, free=2**30 + 100)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    at = opened()
    assert "the disk has 1.0 GiB free" in said(at)
    assert at.button(key="w_long_prepare").disabled
    assert stated(at) > 200  # the size is still there
    assert files == []


def test_the_file_before_makes_room_for_the_next(
    monkeypatch: pytest.MonkeyPatch, shelf: Shelf
) -> None:
    at = prepare(opened())
    size = offer(at).size
    usage = SimpleNamespace(total=10**12, used=0, free=2**30 + size // 2)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    run(at)
    assert said(at) == ""
    downloads.end(shelf.take(offer(at).token), State.SENT)  # type: ignore[arg-type]
    run(at)
    assert "the disk has 1.0 GiB free" in said(at)


def test_what_does_not_go_is_said(files: list[Any]) -> None:
    at = opened()
    at.selectbox(key="w_long_format").set_value("npy")
    at.multiselect(key="w_long_tensors").set_value(["scores", "weights"])
    run(at)
    assert "must be one in an npy file" in said(at)
    assert at.button(key="w_long_prepare").disabled
    at.session_state["refuse"] = True
    run(at)
    assert "heads=3: too many for this test" in said(at)
    assert files == []


def test_a_session_that_goes_lets_go_of_its_file(shelf: Shelf) -> None:
    """Streamlit releases what is cached for a session when its browser has gone."""
    shelf.grace = 0.05
    at = prepare(opened())
    one = offer(at)
    assert not one.file.closed
    st.cache_resource.clear()  # releases what is cached, as the end of a session does its own
    deadline = time.monotonic() + 20
    while not one.file.closed:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert one.state is State.EXPIRED
    run(at)
    assert "not fetched in time" in text(shown(at, "long-file"))


def test_nothing_lies_in_the_folder(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mha_core.export.disk.folder", lambda: str(tmp_path))
    at = prepare(opened())
    assert os.listdir(tmp_path) == []
    assert not offer(at).file.closed
    downloads.shelf.take_back(offer(at))
