"""The PyTorch that does what is on screen: one complete program, the same numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mha_core.config import MHAConfig

_HEAD = '''"""Multi-head attention: the program behind one view. Needs torch alone."""

import hashlib
import math

import torch
from torch import nn

batch, time, d_model, h = {batch}, {time}, {d_model}, {heads}
d_k = d_model // h  # {d_k}
{dropout}seed = {seed}
dtype = torch.{dtype}
device = "{device}"


def stream(purpose, device="cpu"):
    """A random stream of its own for each purpose: changing one leaves the others alone."""
    digest = hashlib.sha256(f"{{seed}}/{{purpose}}".encode()).digest()
    return torch.Generator(device=device).manual_seed(int.from_bytes(digest[:7], "big"))


class MultiHeadAttention(nn.Module):
    def __init__(self):
        super().__init__()
        # One flat (d_model, d_model) matrix each, not one matrix a head.
        self.W_q = nn.Linear(d_model, d_model, bias={bias})
        self.W_k = nn.Linear(d_model, d_model, bias={bias})
        self.W_v = nn.Linear(d_model, d_model, bias={bias})
        self.W_o = nn.Linear(d_model, d_model, bias={bias})

    def forward(self, x):
        # 1 project: (batch, time, d_model) -> (batch, time, d_model)
        q, k, v = self.W_q(x), self.W_k(x), self.W_v(x)
        # 2 split: (batch, time, d_model) -> (batch, time, h, d_k)
        q, k, v = (t.view(batch, time, h, d_k) for t in (q, k, v))
        # 3 transpose: (batch, time, h, d_k) -> (batch, h, time, d_k)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        # 4 scores: (batch, h, time, d_k) x (batch, h, d_k, time) -> (batch, h, time, time)
        scores = q @ k.transpose(-2, -1)
        scores = {scaled}
{mask}        # 5 softmax over the keys
        weights = scores.softmax(-1)
{drop}        # 6 weigh: (batch, h, time, time) x (batch, h, time, d_k) -> (batch, h, time, d_k)
        out = {used} @ v
        # 7 transpose back: (batch, h, time, d_k) -> (batch, time, h, d_k)
        out = out.transpose(1, 2)
        # 8 merge: (batch, time, h, d_k) -> (batch, time, d_model)
        out = out.contiguous().view(batch, time, d_model)
        # 9 output: (batch, time, d_model) -> (batch, time, d_model)
        return self.W_o(out), weights


# On the meta device nothing is drawn from torch's own random stream.
with torch.device("meta"):
    module = MultiHeadAttention()
module.to_empty(device="cpu")
linears = (module.W_q, module.W_k, module.W_v, module.W_o)
with torch.no_grad():
    rng = stream("weights")
    for linear in linears:
        nn.init.xavier_uniform_(linear.weight, generator=rng)
{biases}module = module.to(device, dtype)

{x}

with torch.no_grad():
    output, weights = module(x)

print("output", tuple(output.shape), "weights", tuple(weights.shape))
'''

_RANDOM = """x = torch.randn(batch, time, d_model, generator=stream("input")).to(device, dtype)"""

_TEXT = """\
# One seeded vector a distinct word, plus its position (Vaswani et al. 2017, section 3.5).
tokens = {tokens}
vectors = {{
    word: torch.randn(batch, d_model, generator=stream(f"word/{{word}}"))
    for word in dict.fromkeys(tokens)
}}
words = torch.stack([vectors[word] for word in tokens]).transpose(0, 1)
angle = torch.arange(time)[:, None] / 10000.0 ** (torch.arange(0, d_model, 2) / d_model)
position = torch.empty(time, d_model)
position[:, 0::2] = angle.sin()
position[:, 1::2] = angle.cos()[:, : d_model // 2]
x = (words + position).to(device, dtype)"""

_MASK_INF = """        keep = torch.ones(time, time, dtype=torch.bool, device=x.device).tril()
        scores = scores.masked_fill(~keep, -math.inf)
"""

_MASK_ADDED = """        keep = torch.ones(time, time, dtype=torch.bool, device=x.device).tril()
        added = torch.zeros_like(keep, dtype=scores.dtype).masked_fill(~keep, {fill})
        scores = scores + added
"""

_DROP = """        kept = torch.empty_like(weights).bernoulli_(
            1.0 - dropout, generator=stream("dropout", device)
        )
        dropped = weights * kept / (1.0 - dropout)
"""

_BIASES = """    rng = stream("biases")
    for linear in linears:
        linear.bias.uniform_(-1.0 / math.sqrt(d_model), 1.0 / math.sqrt(d_model), generator=rng)
"""


def program(config: MHAConfig, tokens: Sequence[str] | None = None) -> str:
    """A complete Python program for a configuration; running it gives the same numbers.

    Args:
        config: what runs.
        tokens: the words of a text input; a random input when None.
    """
    mask = ""
    if config.causal:
        infinite = math.isinf(config.fill)
        mask = _MASK_INF if infinite else _MASK_ADDED.format(fill=repr(config.fill))
    scale = "scores / math.sqrt(d_k)" if config.scale is None else f"scores * {config.scale!r}"
    return _HEAD.format(
        batch=config.batch,
        time=config.time,
        d_model=config.d_model,
        heads=config.heads,
        d_k=config.d_k,
        dropout=f"dropout = {config.dropout!r}\n" if config.dropout > 0 else "",
        seed=config.seed,
        dtype=config.dtype,
        device=config.device,
        bias=config.bias,
        scaled=scale,
        mask=mask,
        drop=_DROP if config.dropout > 0 else "",
        used="dropped" if config.dropout > 0 else "weights",
        biases=_BIASES if config.bias else "",
        x=_RANDOM if tokens is None else _TEXT.format(tokens=list(tokens)),
    )
