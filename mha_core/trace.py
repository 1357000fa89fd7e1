"""One forward, recorded: `trace_forward` runs the module and says what happened at each step.

The run records shapes, strides, storage and tensors, at next to no cost. With `profile` it does so
under a `TorchDispatchMode`, for the operators and the peak memory, and further runs, with neither,
are timed.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import NamedTuple

import pandas as pd
import torch
from torch import Tensor

from mha_core import masks, tables
from mha_core.attention import MultiHeadAttention
from mha_core.config import MHAConfig
from mha_core.errors import ConfigError
from mha_core.inputs import build_module, check_finite, random_input
from mha_core.profiling import Run, clocked, counted, described
from mha_core.records import Shape, Step
from mha_core.steps import STEPS


@dataclass(frozen=True)
class Trace:
    """A recorded forward. `trace["softmax"]` is the step; see `Step`.

    Attributes:
        config: what ran.
        steps: in the order they ran; the mask and dropout only where they did.
        visible: boolean, broadcastable to (batch, h, time, time): True where a key may be
            attended; None where no mask was set.
        module, x: what ran, and on what.
        mask: the user's own mask, None where only causal or none was set.
        peak_bytes: the most bytes alive in tensors the forward made (profile).
        milliseconds: of the fastest timed forward (profile).
    """

    config: MHAConfig
    steps: tuple[Step, ...]
    module: MultiHeadAttention
    x: Tensor
    mask: Tensor | None
    visible: Tensor | None
    peak_bytes: int | None = None
    milliseconds: float | None = None

    @cached_property
    def _by_id(self) -> dict[str, Step]:
        return {step.id: step for step in self.steps}

    def __getitem__(self, step: str) -> Step:
        return self._by_id[step]

    def __contains__(self, step: object) -> bool:
        return step in self._by_id

    def tensor(self, step: str) -> Tensor:
        """The tensor of a step.

        Raises:
            ConfigError: the step did not run, or its tensor was not kept.
        """
        if step not in self:
            raise ConfigError("step", step, "did not run", works=", ".join(self._by_id))
        tensor = self[step].tensor
        if tensor is None:
            raise ConfigError("step", step, "ran, but its tensor was not kept; see `keep`")
        return tensor

    @property
    def weights(self) -> Tensor:
        """(batch, h, time, time) after softmax, before dropout."""
        return self.tensor("softmax")

    @property
    def output(self) -> Tensor:
        """(batch, time, d_model)."""
        return self.tensor("output")

    @property
    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.module.parameters())

    @property
    def kept_bytes(self) -> int:
        """Bytes of the distinct storages its tensors hold."""
        kept = [step.tensor.untyped_storage() for step in self.steps if step.tensor is not None]
        return sum({storage.data_ptr(): storage.nbytes() for storage in kept}.values())

    def table(self, *, detail: bool = False) -> pd.DataFrame:
        """The shape table: nine rows, or with `detail` every step; see `tables.frame`."""
        return tables.frame(self.steps, detail=detail)


class _Facts(NamedTuple):
    """What is read off a tensor as it passes: little, so that recording costs next to nothing."""

    name: str
    shape: Shape
    strides: Shape
    offset: int
    contiguous: bool
    dtype: torch.dtype
    nbytes: int
    data_ptr: int
    tensor: Tensor | None

    @property
    def home(self) -> int:
        """Address of its storage."""
        return int(self.data_ptr - self.offset * self.dtype.itemsize)


class _Recorder:
    """Notes every step's facts; holds no tensor but those to be kept."""

    def __init__(self, keep: Collection[str] | None) -> None:
        self._keep = keep
        self._facts: list[_Facts] = []
        self._keys: Shape = ()

    def __call__(self, name: str, tensor: Tensor) -> Tensor:
        kept = self._keep is None or name in self._keep
        self._facts.append(
            _Facts(
                name,
                tensor.shape,
                tensor.stride(),
                int(tensor.storage_offset()),
                tensor.is_contiguous(),
                tensor.dtype,
                tensor.nbytes,
                tensor.data_ptr(),
                tensor.detach() if kept else None,
            )
        )
        if name == "transpose_k":  # the second operand of the scores is Kᵀ
            self._keys = tensor.transpose(-2, -1).shape
        return tensor

    @property
    def steps(self) -> list[Step]:
        """The steps in the order they ran."""
        known: dict[str, _Facts] = {}
        alive: set[str] = set()
        steps = []
        for facts in self._facts:
            spec = STEPS[facts.name]
            reads = tuple(read for read in spec.reads if read in alive)
            steps.append(self._step(facts, reads, known))
            known[facts.name] = facts
            alive.add(facts.name)
            alive -= {read for read in spec.reads if not _needed(read, facts.name)}
        return steps

    def _step(self, facts: _Facts, reads: tuple[str, ...], known: dict[str, _Facts]) -> Step:
        shapes = [tuple(known[read].shape) for read in reads]
        if facts.name == "scores":
            shapes[1] = tuple(self._keys)
        # What a step reads is alive when it runs, so that equal addresses are one storage.
        view_of = next((read for read in reads if known[read].home == facts.home), None)
        return Step(
            spec=STEPS[facts.name],
            reads=reads,
            input_shapes=tuple(shapes),
            shape=tuple(facts.shape),
            strides=tuple(facts.strides),
            offset=facts.offset,
            contiguous=facts.contiguous,
            dtype=facts.dtype,
            view_of=view_of,
            nbytes=facts.nbytes,
            tensor=facts.tensor,
        )


@cache
def _needed(step: str, after: str) -> bool:
    """Whether one later than `after` reads `step`: not where it takes `after` in its stead.

    So of alternatives (masked or scaled scores) only the last that ran is there to be read.
    """
    later = list(STEPS.values())[list(STEPS).index(after) + 1 :]
    return any(step in spec.reads and after not in spec.reads for spec in later)


def trace_forward(
    config: MHAConfig,
    module: MultiHeadAttention | None = None,
    x: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    keep: Collection[str] | None = None,
    profile: bool = True,
    clock: bool = True,
) -> Trace:
    """Runs the module once and returns what happened at every step.

    Args:
        config: sizes, causal, dropout, dtype, device and seed.
        module: of the same d_model, heads, scale and fill; seeded from the configuration
            when None.
        x: (batch, time, d_model); standard normal, seeded, when None.
        mask: as in `attend`; True = may attend.
        keep: ids of the steps whose tensors are kept; all when None.
        profile: also count operators, FLOPs and bytes, and time every step.
        clock: False leaves the timing of a profile for later; see `timed`.

    Raises:
        ConfigError: module, x or mask do not fit the configuration, or are not finite.
    """
    given = (module, x, mask)
    module = build_module(config) if module is None else module
    x = random_input(config) if x is None else x
    _check_fit(config, module, x)
    if mask is not None:
        mask = mask.to(x.device, x.dtype if mask.is_floating_point() else mask.dtype)
    recorder = _Recorder(keep)
    run = Run(config, module, x, mask)
    if profile:
        output, dispatched, peak = counted(run, recorder)
    else:
        output, dispatched, peak = run(recorder), None, None
    # What is not finite in a user's module, x or mask reaches the output, which is sooner looked
    # through than they are; where they are finite, it overflowed on the way, and is shown.
    if not math.isfinite(float(output.float().sum())):
        check_finite(*given)
    steps = recorder.steps if dispatched is None else described(recorder.steps, dispatched)
    allowed = masks.causal(config.time, device=x.device) if config.causal else None
    full = masks.combine(allowed, mask)
    trace = Trace(
        config=config,
        steps=tuple(steps),
        module=module,
        x=x,
        mask=mask,
        visible=None if full is None else masks.visible(full),
        peak_bytes=peak,
    )
    return timed(trace) if profile and clock else trace


def timed(trace: Trace) -> Trace:
    """The same trace with the milliseconds of the forward and of every step, from runs anew."""
    laps, milliseconds = clocked(Run(trace.config, trace.module, trace.x, trace.mask))
    steps = (replace(step, milliseconds=laps.get(step.id, 0.0)) for step in trace.steps)
    return replace(trace, steps=tuple(steps), milliseconds=milliseconds)


def _check_fit(config: MHAConfig, module: MultiHeadAttention, x: Tensor) -> None:
    for field in ("d_model", "heads", "scale", "fill"):
        value = getattr(module, field)
        if value != getattr(config, field):
            raise ConfigError(
                field,
                getattr(config, field),
                f"must be the module's {field}={value}",
                works=f"Nearest that works: {value}",
                repairs=[{field: value}],
            )
    wanted = (config.batch, config.time, config.d_model)
    if tuple(x.shape) != wanted:
        raise ConfigError("x", tuple(x.shape), f"must be (batch, time, d_model) = {wanted}")
    dtype = module.W_q.weight.dtype
    if x.dtype is not dtype:
        raise ConfigError("x", str(x.dtype), f"must have the module's dtype, {dtype}")
