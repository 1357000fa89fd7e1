"""What the tests of the C++ module share: the running program, cases, and comparing bits."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor

from mha_core import MHAConfig, masks
from mha_core.attention import MultiHeadAttention
from tests.core.support import randn

State = dict[str, Tensor]


class Refused(Exception):
    """What the C++ side said no with."""


class Server:
    """One process that runs case after case; see mha_core/libtorch/cases.h."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._given, self._result = folder / "case.safetensors", folder / "result.safetensors"
        # As many threads as here: how a product is split among them moves its last bits.
        command = [str(program), "serve", "--threads", str(torch.get_num_threads())]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, case: Mapping[str, Any]) -> State:
        tensors = {
            name: value.detach().clone(memory_format=torch.contiguous_format)
            if isinstance(value, Tensor)
            else torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)
            for name, value in case.items()
            if value is not None
        }
        save_file(tensors, self._given)
        return self.files(self._given, self._result)

    def files(self, given: Path, result: Path) -> State:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{given}\t{result}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().rstrip("\n")
        if answer != "ok":
            assert answer.startswith("error "), f"the program ended: {self._process.poll()}"
            raise Refused(answer.removeprefix("error "))
        return load_file(result)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(timeout=30) == 0


def command(program: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([str(program), *arguments], capture_output=True, check=False, timeout=300)


def bits(tensor: Tensor) -> Tensor:
    """The number as it lies in memory, so that 0 and -0 differ, and NaN equals itself."""
    plain = tensor.detach().contiguous()
    return plain if plain.dtype is torch.bool else plain.view(torch.uint8)


def same_bits(one: Tensor, other: Tensor) -> bool:
    return (
        one.shape == other.shape
        and one.dtype is other.dtype
        and torch.equal(bits(one), bits(other))
    )


def weights_of(module: MultiHeadAttention) -> State:
    return {name: weight.detach() for name, weight in module.named_parameters()}


def configs() -> st.SearchStrategy[MHAConfig]:
    """One head, one position, odd widths, every switch."""

    def build(heads: int, d_k: int, **fields: Any) -> MHAConfig:
        return MHAConfig(heads=heads, d_model=heads * d_k, **fields)

    return st.builds(
        build,
        heads=st.integers(1, 6),
        d_k=st.integers(1, 9),
        batch=st.integers(1, 4),
        time=st.integers(1, 17),
        causal=st.booleans(),
        bias=st.booleans(),
        dropout=st.sampled_from([0.0, 0.0, 0.25]),
        scale=st.sampled_from([None, None, 0.3]),
        fill=st.sampled_from([-torch.inf, -torch.inf, -1e9, -1e38]),
        dtype=st.sampled_from(["float32", "float64"]),
        seed=st.integers(0, 2**63 - 1),
    )


@st.composite
def runs(draw: st.DrawFn) -> tuple[MHAConfig, Tensor | None]:
    """A configuration and a mask: none, padding (down to no key at all), boolean or additive."""
    config = draw(configs())
    batch, time = config.batch, config.time
    kind = draw(st.sampled_from(["none", "padding", "boolean", "additive"]))
    if kind == "none":
        return config, None
    if kind == "padding":
        lengths = draw(st.lists(st.integers(0, time), min_size=batch, max_size=batch))
        return config, masks.padding(lengths, time)
    shape = draw(
        st.sampled_from([(time, time), (batch, 1, time, time), (1, config.heads, 1, time)])
    )
    values = randn(*shape, seed=draw(st.integers(0, 1000)), dtype=config.torch_dtype)
    if kind == "boolean":
        return config, values > draw(st.sampled_from([-0.5, 0.0, 2.0]))
    return config, values.masked_fill(values > 1.0, -torch.inf)
