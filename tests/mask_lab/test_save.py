"""Files read back: the mask bit for bit, its parts, and tables as they were."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
import torch
from hypothesis import given

from mha_core import ConfigError, MHAConfig, trace_forward
from mha_core.mask_lab import build
from mha_core.mask_lab.build import MaskSpec
from mha_core.mask_lab.forms import FORMS, convert
from mha_core.mask_lab.lab import CELLS, lab_of
from mha_core.mask_lab.save import file_stem, mask_file, table_csv
from tests.mask_lab.support import KINDS, lab, specs


@given(specs())
def test_a_mask_is_read_back_from_every_format(made):
    keep = build.keep(made).numpy()
    array = np.load(io.BytesIO(mask_file(made, "npy")), allow_pickle=False)
    assert array.dtype == np.bool_
    assert np.array_equal(array, keep)
    said = json.loads(mask_file(made, "json"))
    assert MaskSpec.from_dict(said["parts"]) == made
    assert np.array_equal(np.array(said["mask"]).astype(bool), keep)
    assert said["shape"] == list(keep.shape)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", ["causal", "causal padding", "drawn"])
def test_an_npz_holds_every_form_and_the_parts(kind, dtype):
    made = KINDS[kind]
    with np.load(io.BytesIO(mask_file(made, "npz", dtype=dtype)), allow_pickle=False) as found:
        for form in FORMS:
            wanted = convert(build.keep(made), "keep", form, dtype=dtype)
            if dtype is torch.bfloat16 and wanted.is_floating_point():
                wanted = wanted.float()
            assert found[form].dtype == wanted.numpy().dtype
            assert np.array_equal(found[form], wanted.numpy())
        assert np.array_equal(found["pattern"], build.pattern(made).numpy())
        assert ("padding" in found) == bool(made.lengths)
        assert MaskSpec.from_dict(json.loads(str(found["parts"]))) == made


def test_an_unknown_format_is_refused():
    with pytest.raises(ConfigError, match=r"format='pickle'.*npy, npz, json"):
        mask_file(KINDS["causal"], "pickle")


def test_names_say_what_is_in_the_file():
    assert file_stem(KINDS["causal padding"]) == "mask_5x5_causal_padding"
    assert file_stem(KINDS["causal window"]) == "mask_5x5_causal_window2"
    assert file_stem(KINDS["prefix"]) == "mask_5x5_prefix3"
    assert len({file_stem(made) for made in KINDS.values()}) > 8


def test_a_table_keeps_its_numbers():
    data = table_csv(("a", "b"), [(0.1, (2, 3)), (None, "x, y")])
    rows = list(csv.reader(io.StringIO(data.decode())))
    assert rows == [["a", "b"], ["0.1", "(2, 3)"], ["", "x, y"]]


def test_a_lab_is_the_run_cut_to_what_runs_at_once():
    whole = lab(dtype="float32")
    assert whole.said() == ""
    trace = trace_forward(MHAConfig(batch=6, time=300, d_model=32, heads=8))
    cut = lab_of(trace)
    batch, heads, time, _ = cut.shape
    assert (batch, heads) == (4, 8)
    assert batch * heads * time**2 <= CELLS < batch * heads * (time + 1) ** 2
    assert cut.said() == f"the first {time} of 300 positions and the first 4 of 6 batch items"
    assert torch.equal(cut.x, trace.x[:4, :time])
    # Projections are by position: those of the part are part of those of the whole.
    assert torch.allclose(cut.qkv[0], trace.tensor("transpose_q")[:4, :, :time], atol=1e-6)


def test_a_lab_has_no_dropout_no_gradients_and_the_usual_scale():
    trace = trace_forward(MHAConfig(dropout=0.5, scale=1.0, fill=-1e4, causal=True))
    cut = lab_of(trace)
    assert not cut.module.training
    assert cut.module.scale is None
    assert all(not parameter.requires_grad for parameter in cut.module.parameters())
    assert trace.module.training  # the run's own is left as it is
