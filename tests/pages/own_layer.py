"""A layer of torch's own as a file on the page, and what torch says of it."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from streamlit.testing.v1 import AppTest
from torch import Tensor, nn

from mha_core import trace_forward
from tests.pages.own import choose, focus, give, open_source, safetensors
from tests.pages.support import config, set_state

D_MODEL, HEADS = 24, 3


def layer(d_model: int = D_MODEL, heads: int = HEADS, seed: int = 1) -> nn.MultiheadAttention:
    """torch's own module, its biases not at zero, where it leaves them."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = nn.MultiheadAttention(d_model, heads, batch_first=True)
        for parameter in module.parameters():
            nn.init.normal_(parameter, std=0.4)
    return module.eval()


MODULE = layer()
FILE = safetensors(MODULE.state_dict())


def per_head(module: nn.MultiheadAttention, x: Tensor, mask: Tensor | None = None) -> Tensor:
    """torch's weights, (batch, h, time, time)."""
    with torch.no_grad():
        _, weights = module(x, x, x, attn_mask=mask, average_attn_weights=False)
    return weights


def page_input(at: AppTest) -> Tensor:
    """The random input of the configuration on the page: it does not depend on the weights."""
    return trace_forward(config(at), profile=False).x


def shown(at: AppTest, head: int, item: int = 0) -> NDArray[np.float32]:
    """What the hover tells of a head."""
    return focus(set_state(at, head=head, w_item=item))


def opened(data: bytes = FILE, name: str = "mine.safetensors", **answers: int | str) -> AppTest:
    """The page on a file, its questions answered."""
    at = give(open_source("weights"), "weights", name, data)
    for field, answer in answers.items():
        choose(at, f"answer_{field}", answer)
    return at
