"""Seeded weights and inputs: they depend on the seed and the sizes alone, never on torch's state.

Weights, inputs and dropout draw from streams of their own, so that changing one (say, causal,
heads or dropout) leaves the others as they were. Draws are made in float32 on the CPU and then
converted, so that the same seed means the same numbers on every device and, up to rounding, in
every dtype.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mha_core.attention import MultiHeadAttention
from mha_core.config import MHAConfig
from mha_core.errors import ConfigError


def generator(seed: int, stream: str, device: str = "cpu") -> torch.Generator:
    """A private generator for one purpose; `stream` keeps purposes apart."""
    digest = hashlib.sha256(f"{seed}/{stream}".encode()).digest()
    return torch.Generator(device=device).manual_seed(int.from_bytes(digest[:7], "big"))


def check_finite(module: nn.Module | None, x: Tensor | None, mask: Tensor | None) -> None:
    """Refuses NaN and infinity in what a user brings, saying where.

    One NaN reaches every number behind it. Masking its key does not stop it, since a weight of 0
    times NaN is NaN. A mask may hold -inf.
    """
    given: dict[str, Tensor] = {} if module is None else dict(module.named_parameters())
    if x is not None:
        given["x"] = x
    if mask is not None and mask.is_floating_point():
        given["mask"] = mask.masked_fill(mask == -math.inf, 0.0)
    for name, tensor in given.items():
        # One NaN or infinity makes the sum one: a tenth of the work of looking at every number.
        wide = torch.promote_types(tensor.dtype, torch.float32)
        if math.isfinite(tensor.detach().sum(dtype=wide).item()):
            continue
        wrong = ~torch.isfinite(tensor)
        if wrong.any():
            first = tuple(wrong.nonzero()[0].tolist())
            raise ConfigError(
                name,
                tensor[first].item(),
                f"must be finite; the first of {int(wrong.sum())} that are not is at {first}",
            )


def build_module(config: MHAConfig) -> MultiHeadAttention:
    """The module with seeded weights, in eval mode unless the configuration has dropout.

    Weights are Xavier uniform (Glorot and Bengio 2010), which gives scaled scores of standard
    deviation near 1 for a standard normal input; biases are uniform in ±1/sqrt(d_model), as
    nn.Linear's own.
    """
    # On the meta device nn.Linear's own initialisation draws nothing from the global generator.
    module = MultiHeadAttention(
        config.d_model,
        config.heads,
        bias=config.bias,
        dropout=config.dropout,
        scale=config.scale,
        fill=config.fill,
        device="meta",
        dtype=config.torch_dtype,
    ).to_empty(device=config.device)
    rng = generator(config.seed, "weights")
    bound = 1.0 / math.sqrt(config.d_model)
    with torch.no_grad():
        for linear in (module.W_q, module.W_k, module.W_v, module.W_o):
            drawn = torch.empty(config.d_model, config.d_model, dtype=torch.float32)
            linear.weight.copy_(nn.init.xavier_uniform_(drawn, generator=rng))
        if config.bias:
            rng = generator(config.seed, "biases")
            for linear in (module.W_q, module.W_k, module.W_v, module.W_o):
                drawn = torch.empty(config.d_model, dtype=torch.float32)
                linear.bias.copy_(drawn.uniform_(-bound, bound, generator=rng))
    return module.train(config.dropout > 0.0)


def random_input(config: MHAConfig) -> Tensor:
    """Standard normal (batch, time, d_model)."""
    drawn = torch.randn(
        config.batch,
        config.time,
        config.d_model,
        generator=generator(config.seed, "input"),
        dtype=torch.float32,
    )
    return drawn.to(config.device, config.torch_dtype)


def text_input(config: MHAConfig, tokens: Sequence[str]) -> Tensor:
    """One seeded vector a distinct word, plus its position: (batch, time, d_model).

    The same word has the same vector wherever it stands; each batch item draws vectors of its
    own, so that batch items differ. Positions are sinusoidal (Vaswani et al. 2017, section
    3.5).

    Raises:
        ConfigError: if the number of tokens is not the configuration's time.
    """
    if len(tokens) != config.time:
        raise ConfigError(
            "time",
            config.time,
            f"must be the number of tokens, {len(tokens)}",
            works=f"Nearest that works: {len(tokens)}",
            repairs=[{"time": len(tokens)}] if tokens else [],
        )
    vocabulary = {
        word: torch.randn(
            config.batch,
            config.d_model,
            generator=generator(config.seed, f"word/{word}"),
            dtype=torch.float32,
        )
        for word in dict.fromkeys(tokens)
    }
    # (time, batch, d_model) -> (batch, time, d_model)
    words = torch.stack([vocabulary[word] for word in tokens]).transpose(0, 1)
    return (words + positions(config.time, config.d_model)).to(config.device, config.torch_dtype)


def positions(time: int, d_model: int) -> Tensor:
    """Sinusoidal position encoding, float32 (time, d_model)."""
    place = torch.arange(time, dtype=torch.float32)[:, None]
    column = torch.arange(0, d_model, 2, dtype=torch.float32)
    angle = place / 10000.0 ** (column / d_model)
    encoding = torch.empty(time, d_model, dtype=torch.float32)
    encoding[:, 0::2] = angle.sin()
    encoding[:, 1::2] = angle.cos()[:, : d_model // 2]
    return encoding


def tokenize(text: str, *, limit: int = 2048) -> list[str]:
    """The words of a text, as typed, split at white space.

    Raises:
        ConfigError: if there is no word, or more than `limit`.
    """
    tokens = text.split()
    if not tokens:
        raise ConfigError("text", text, "must have at least one word")
    if len(tokens) > limit:
        raise ConfigError(
            "text",
            f"{len(tokens)} words",
            f"must have at most {limit} words",
            works=f"Nearest that works: the first {limit}",
        )
    return tokens
