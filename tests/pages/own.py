"""What the tests of the page's sources share: a source, a file given to it, what is shown of it."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import FileUploader
from torch import Tensor

from tests.pages.support import open_app, piece, run, text


def open_source(source: str, at: AppTest | None = None) -> AppTest:
    """A session at a source, chosen as a person does."""
    at = open_app() if at is None else at
    at.selectbox(key="w_source").set_value(source)
    return run(at)


def give(at: AppTest, kind: str, name: str, data: bytes) -> AppTest:
    """A file in a control: weights, maps, tokens or picture."""
    control(at, kind).set_value((name, data, "application/octet-stream"))
    return run(at)


def control(at: AppTest, kind: str) -> FileUploader:
    """Where a kind of file is given."""
    (found,) = [one for one in at.file_uploader if str(one.key).startswith(f"w_file_{kind}")]
    return found


def empty(at: AppTest, kind: str) -> AppTest:
    """Takes the file out of the control, as happens too while it is exchanged for another."""
    control(at, kind).set_value(None)
    return run(at)


def take_back(at: AppTest, kind: str) -> AppTest:
    """The button beside a file that is in use."""
    at.button(key=f"w_back_{kind}").click()
    return run(at)


def choose(at: AppTest, field: str, value: Any) -> AppTest:
    at.selectbox(key=f"w_{field}").set_value(value)
    return run(at)


def safetensors(state: Mapping[str, Tensor]) -> bytes:
    """A state dict as a file."""
    data: bytes = save({name: tensor.detach().contiguous() for name, tensor in state.items()})
    return data


def pt(what: Any) -> bytes:
    file = io.BytesIO()
    torch.save(what, file)
    return file.getvalue()


def npz(*arrays: NDArray[Any], **named: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.savez(file, *arrays, **named)
    return file.getvalue()


def npy(array: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def attention(*shape: int, seed: int = 5) -> NDArray[np.float32]:
    """Rows that sum to 1 over the last axis."""
    scores = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return scores.softmax(-1).numpy()


def labels(at: AppTest) -> list[str]:
    """The words beside the map in focus."""
    column = re.search(r'class="ylab"[^>]*>(.*?)</div>', piece(at, 'class="focus-head"'), re.S)
    assert column is not None
    return [text(span) for span in re.findall(r"<span[^>]*>(.*?)</span>", column[1])]


def focus(at: AppTest) -> NDArray[np.float32]:
    """The numbers of the map in focus, as its hover tells them; (time, time), NaN = no cell."""
    body = piece(at, 'class="focus-head"')
    packed = re.search(r'data-z="([^"]*)"', body)
    assert packed is not None
    values = np.frombuffer(base64.b64decode(packed[1]), np.float32)
    side = round(len(values) ** 0.5)
    return values.reshape(side, side)


def proofs(at: AppTest) -> dict[str, bool]:
    """Name of each proof that was made -> whether it holds."""
    strip = piece(at, 'class="proofs"')
    cards = re.findall(r'class="mark (holds|fails)">.</span><b>(.*?)</b>', strip)
    return {name: kind == "holds" for kind, name in cards}


def tiles(at: AppTest) -> list[str]:
    """The addresses of the heads' pictures."""
    return re.findall(r'<img src="([^"]*)"', piece(at, 'class="focus-head"'))


def captions(at: AppTest) -> str:
    """The quiet notes, as a reader of Markdown shows them."""
    told = "\n".join(caption.value for caption in at.caption)
    return re.sub(r"\\([^\w\s]|_)", r"\1", told)
