"""An attention layer as it ran inside a model, and the same run through our own forward."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mha_core.attention import MultiHeadAttention
from mha_core.config import MHAConfig
from mha_core.errors import ConfigError
from mha_core.trace import Trace, trace_forward

# The largest difference that the order of additions explains, by dtype of the model: of weights,
# which are at most 1, and of the output, as a share of its largest value. Some models take the
# softmax in float32 whatever they run in.
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 5e-3}


@dataclass(frozen=True)
class Captured:
    """What one attention layer of a model was given, and what it made of it.

    Attributes:
        name: for people, e.g. "MiniLM-L6, layer 3".
        x: (batch, time, d_model), the input of its projections.
        module: its weights as ours; None where it is not plain multi-head attention.
        mask: boolean, True = may attend, or a float added to the scores; broadcastable to
            (batch, h, time, time). None where nothing but `causal` is masked.
        causal: every query sees itself and what is before it.
        weights: (batch, h, time, time), the model's own, after softmax.
        output: (batch, time, d_model), the model's own, after W_o; None where `module` is.
        uncovered: what differs from plain multi-head attention, each as one sentence that names
            the step it touches. Empty where `module` is set.
    """

    name: str
    x: Tensor
    module: MultiHeadAttention | None
    mask: Tensor | None
    causal: bool
    weights: Tensor
    output: Tensor | None
    uncovered: tuple[str, ...] = ()


@dataclass(frozen=True)
class Retraced:
    """Our forward on a captured layer.

    Attributes:
        trace: of our module, on the layer's real input.
        weights_difference: largest, from the model's own weights.
        output_difference: largest, from the model's own output.
    """

    trace: Trace
    weights_difference: float
    output_difference: float


def configuration(captured: Captured) -> MHAConfig:
    """The configuration of a captured layer that is plain multi-head attention.

    Raises:
        ConfigError: it is not, with what differs.
    """
    module = captured.module
    if module is None:
        raise ConfigError(
            "model", captured.name, f"is not plain multi-head attention: {captured.uncovered[0]}"
        )
    batch, time, d_model = captured.x.shape
    return MHAConfig(
        batch=batch,
        time=time,
        d_model=d_model,
        heads=module.heads,
        causal=captured.causal,
        bias=module.W_q.bias is not None,
        dtype=str(captured.x.dtype).removeprefix("torch."),
        device=captured.x.device.type,
        scale=module.scale,
        fill=module.fill,
    )


def retrace(captured: Captured, *, profile: bool = True, clock: bool = True) -> Retraced:
    """Runs our forward on the layer's real input, weights and mask.

    Args:
        captured: a layer of a model.
        profile, clock: as for `trace_forward`.

    Raises:
        ConfigError: it is not plain multi-head attention, or our forward does not give what the
            model gave: a trace that does not reproduce the model is not shown.
    """
    config = configuration(captured)
    trace = trace_forward(
        config, captured.module, captured.x, captured.mask, profile=profile, clock=clock
    )
    assert captured.output is not None
    # A query without a visible key (padding) has weights 0 here; models spread them evenly.
    seen = torch.ones(1, 1, 1, dtype=torch.bool, device=captured.x.device)
    if trace.visible is not None:
        seen = trace.visible.broadcast_to(captured.weights.shape).any(-1)
    weights = _largest((trace.weights - captured.weights) * seen[..., None])
    output = _largest((trace.output - captured.output) * seen.any(1)[..., None])
    limit = TOLERANCE[captured.x.dtype]
    size = max(1.0, _largest(captured.output))
    # Written so that NaN, which is no number to compare, is refused too.
    if not (weights <= limit and output <= limit * size):
        raise ConfigError(
            "model",
            captured.name,
            "is not reproduced: our weights differ from its own by up to "
            f"{weights:.2g}, our output by up to {output:.2g}",
        )
    return Retraced(trace, weights, output)


def _largest(difference: Tensor) -> float:
    return float(difference.abs().max()) if difference.numel() else 0.0
