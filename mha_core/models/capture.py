"""One attention layer of a running model, taken by hooks: its input, mask, weights and output."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from mha_core import masks
from mha_core.errors import ConfigError
from mha_core.models.differences import differences
from mha_core.models.layer import Captured, Retraced, retrace
from mha_core.models.sites import Site, arguments, candidates, sites
from mha_core.trace import Trace

# Hooks see every forward of a model: two sessions that run it at once would take each other's.
_ONE_AT_A_TIME = threading.Lock()


@dataclass
class _Call:
    """One call of an attention module, filled in as the model runs."""

    site: Site
    given: dict[str, object]
    inputs: list[Tensor] = field(default_factory=list)
    weights: Tensor | None = None
    output: Tensor | None = None


class _Watch:
    """Hooks on every attention module; keeps the tensors of one call alone."""

    def __init__(self, wanted: int) -> None:
        self.count = 0
        self.call: _Call | None = None
        self._wanted = wanted
        self._open: dict[int, _Call | None] = {}

    def watch(self, site: Site, stack: ExitStack) -> None:
        def begins(core: nn.Module, args: Any, kwargs: Any) -> None:
            call = None
            if self.count == self._wanted:
                call = self.call = _Call(site, arguments(core, args, kwargs))
            self._open[id(site)] = call
            self.count += 1

        def projects(_: nn.Module, args: Any, kwargs: Any) -> None:
            call = self._open.get(id(site))
            given = [*args, *kwargs.values()]
            if call is not None and given and isinstance(given[0], Tensor):
                call.inputs.append(given[0].detach())

        def ends(_: nn.Module, _args: Any, result: Any) -> None:
            call = self._open.get(id(site))
            if call is not None and isinstance(result, tuple):
                # T5 returns a position bias of the same axes before the weights.
                maps = [item for item in result if isinstance(item, Tensor) and item.dim() == 4]
                call.weights = maps[-1].detach() if maps else None

        def leaves(_: nn.Module, _args: Any, result: Any) -> None:
            call = self._open.get(id(site))
            if call is not None and isinstance(result, Tensor):
                call.output = result.detach()

        hooks = [
            site.core.register_forward_pre_hook(begins, with_kwargs=True),
            site.core.register_forward_hook(ends),
        ]
        for module in site.inputs:
            hooks.append(module.register_forward_pre_hook(projects, with_kwargs=True))
        if site.out is not None:
            hooks.append(site.out.register_forward_hook(leaves))
        for hook in hooks:
            stack.callback(hook.remove)


@contextmanager
def _as_it_shows_weights(model: Any) -> Iterator[None]:
    """In evaluation, without gradients, with the attention that returns its weights."""
    training = model.training
    config = getattr(model, "config", None)
    before = getattr(config, "_attn_implementation", None)
    changes = before not in (None, "eager") and hasattr(model, "set_attn_implementation")
    if changes:
        model.set_attn_implementation("eager")
    model.eval()
    try:
        # Not inference_mode: its tensors cannot enter code that autograd tracks.
        with torch.no_grad():
            yield
    finally:
        model.train(training)
        if changes:
            model.set_attn_implementation(before)


def capture(model: nn.Module, inputs: Mapping[str, Any], layer: int, *, name: str = "") -> Captured:
    """Runs a model and takes one of its self-attention layers.

    Args:
        model: any with attention modules as transformers or this project names them.
        inputs: keyword arguments of its forward.
        layer: counted from 0 in the order the model runs them.
        name: of the model, for people.

    Raises:
        ConfigError: no attention found, no such layer, or a layer whose weights are not one map
            a head, (batch, h, time, time).
    """
    found = sites(model)
    label = name or type(model).__name__
    if not found:
        raise ConfigError("model", label, "has no self-attention whose projections are known")
    watch = _Watch(layer)
    with _ONE_AT_A_TIME, ExitStack() as stack, _as_it_shows_weights(model):
        for site in found:
            watch.watch(site, stack)
        try:
            model(**_asking(model, inputs))
        except (IndexError, RuntimeError, TypeError, ValueError) as error:
            said = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise ConfigError(
                "model", label, f"does not run on this input: {said[:200]}"
            ) from error
    if watch.call is None:
        raise ConfigError("layer", layer, f"must be from 0 to {watch.count - 1}")
    return _captured(watch.call, f"{label}, layer {layer}")


def _asking(model: nn.Module, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs, asking for the weights where the model is one of transformers."""
    ours = getattr(model, "config", None) is None
    return dict(inputs) if ours else {"output_attentions": True, **inputs}


def _captured(call: _Call, name: str) -> Captured:
    weights = call.weights
    x = call.inputs[0] if call.inputs else None
    if x is not None and x.dim() == 2 and weights is not None:  # OPT flattens batch and time
        x = x.view(weights.shape[0], -1, x.shape[-1])
    if weights is None or x is None or weights.shape[-2:] != (x.shape[1], x.shape[1]):
        shape = None if weights is None else tuple(weights.shape)
        why = "" if weights is None else "; ".join(differences(call.site, call.given, weights))
        raise ConfigError(
            "model", name, f"gives weights {shape}, not one (time, time) map a head. {why}".strip()
        )
    uncovered = differences(call.site, call.given, weights)
    if len({tensor.data_ptr() for tensor in call.inputs}) > 1:
        uncovered += ("queries, keys and values come from different inputs (step 1, project)",)
    mask, causal = _mask(call, weights)
    output = None if call.output is None else call.output.view(x.shape)
    taken = Captured(name, x, None, mask, causal, weights, output, uncovered)
    if uncovered:
        return taken
    return _plain(taken, call.site)


def _plain(taken: Captured, site: Site) -> Captured:
    """The layer with its weights as our module, if that gives what the model gave."""
    refused = "its output projection was not found (step 9, output)"
    heads = taken.weights.shape[1]
    if taken.output is not None:
        scale = getattr(site.core, "scaling", None) or getattr(site.core, "scale", None)
        d_k = taken.x.shape[-1] // heads
        usual = scale is None or math.isclose(scale, d_k**-0.5, rel_tol=1e-6)
        for module in candidates(site, heads, None if usual else float(scale or 0.0)):
            reading = Captured(
                taken.name, taken.x, module, taken.mask, taken.causal, taken.weights, taken.output
            )
            try:
                retrace(reading, profile=False)
            except ConfigError as error:
                refused = str(error)
            else:
                return reading
    return Captured(
        taken.name, taken.x, None, taken.mask, taken.causal, taken.weights, taken.output, (refused,)
    )


def _mask(call: _Call, weights: Tensor) -> tuple[Tensor | None, bool]:
    """The layer's mask in our polarity, and whether it is causal.

    Models add finfo.min to what is hidden: that is a boolean mask, and said as one. What adds
    anything else to the scores stays as it is.
    """
    given = call.given.get("attention_mask", call.given.get("mask"))
    time = weights.shape[-1]
    tril = masks.causal(time, device=weights.device)
    if not isinstance(given, Tensor) or given.dim() != 4:
        # A decoder without a mask would have needed none: one position sees itself.
        return None, False
    mask = given.detach()[..., :time]
    if mask.is_floating_point():
        hidden = mask <= torch.finfo(mask.dtype).min / 2
        if not bool((hidden | (mask == 0)).all()):
            return mask, False
        mask = ~hidden
    mask = mask.bool()
    if bool(mask.all()):
        return None, False
    full = mask.expand(weights.shape[0], -1, time, time)
    causal = time > 1 and not bool((full & ~tril).any())
    if causal and bool((full == tril).all()):
        return None, True
    return mask, causal


def trace_layer(model: nn.Module, inputs: Mapping[str, Any], *, layer: int = 0) -> Trace:
    """The trace of one attention layer of a model, on what the layer was really given.

    Args:
        model: e.g. of transformers; its weights stay as they are.
        inputs: what its tokenizer returns.
        layer: counted from 0.

    Raises:
        ConfigError: the layer is not plain multi-head attention, with what differs, or our
            forward does not reproduce it.
    """
    return traced(model, inputs, layer=layer).trace


def traced(model: nn.Module, inputs: Mapping[str, Any], *, layer: int = 0) -> Retraced:
    """As `trace_layer`, with the differences from the model's own weights and output."""
    return retrace(capture(model, inputs, layer))
