"""What may be exported, and how what may not is refused."""

from typing import Any

import pytest

from mha_core import ConfigError, trace_forward
from mha_core.export import FORMATS, Selection, file_name, format_named, stem
from tests.export.support import HEADS, config, traced


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (
            Selection(("attention",)),
            r"tensors='attention'.*scores, scaled, masked, weights",
        ),
        (Selection(()), "must name at least one tensor"),
        (Selection(("weights", "weights")), "each tensor once"),
        (Selection(heads=(5,)), "heads=5: must be an index from 0 to 4.*0 to 4"),
        (Selection(heads=(1, -1, 9)), r"heads=\(-1, 9\)"),
        (Selection(heads=()), "heads=.*at least one"),
        (Selection(heads=(1, 1)), "each index once"),
        (Selection(heads=(True,)), "heads=True"),
        (Selection(items=(2,)), "items=2: must be an index from 0 to 1"),
        (Selection(("after dropout",)), "after dropout.*dropout is 0"),
    ],
)
def test_a_selection_that_does_not_fit_is_refused(selection: Selection, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        FORMATS["npz"].build(traced(), selection)
    with pytest.raises(ConfigError, match=message):
        selection.check(config())


def test_a_mask_that_was_not_set_is_named() -> None:
    with pytest.raises(ConfigError, match=r"masked.*no mask is set.*scores, scaled, weights"):
        FORMATS["npz"].build(traced(causal=False), Selection(("masked",)))


def test_a_tensor_that_was_not_kept_is_named() -> None:
    trace = trace_forward(config(), keep=("softmax",), profile=False)
    with pytest.raises(ConfigError, match="not kept"):
        FORMATS["npz"].build(trace, Selection(("scores",)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "sepia"}, "mode='sepia'.*light, dark"),
        ({"scale": "cubic"}, "scale='cubic'.*log"),
        ({"tokens": ["a", "b"]}, "tokens='2 tokens'.*time=7"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        FORMATS["png"].build(traced(), **arguments)


@pytest.mark.parametrize("name", ["png", "svg", "pdf", "html", "csv"])
def test_figures_and_rows_need_a_map(name: str) -> None:
    with pytest.raises(ConfigError, match=r"must have a map.*npz and safetensors take any"):
        FORMATS[name].build(traced(), Selection(("q", "output")))


@pytest.mark.parametrize("name", ["png", "svg", "html"])
def test_too_many_maps_are_refused_before_any_run(name: str) -> None:
    many = config(batch=200)
    with pytest.raises(ConfigError, match=f"maps=1000: must be at most 128 in one {name}"):
        FORMATS[name].check(many, Selection())
    FORMATS["npz"].check(many, Selection())
    FORMATS[name].check(many, Selection(items=(0, 3)))


def test_too_many_rows_are_refused_with_their_number() -> None:
    large = config(batch=1, time=2001)
    with pytest.raises(ConfigError, match=r"rows=20020005.*20,000,000.*npz"):
        FORMATS["csv"].check(large, Selection())
    FORMATS["csv"].check(large, Selection(heads=(0, 1, 2, 3)))


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"format='gif'.*png, svg"):
        format_named("gif")


def test_file_names_carry_the_configuration() -> None:
    assert (
        file_name(config(), "weights", "npz") == "attention_b2_t7_d15_h5_causal_seed0_weights.npz"
    )
    other = config(causal=False, dropout=0.1, bias=False, dtype="bfloat16", seed=3, scale=0.5)
    assert (
        file_name(other, "table", "csv")
        == "attention_b2_t7_d15_h5_dropout0.1_nobias_scale0.5_bfloat16_seed3_table.csv"
    )
    assert "_fill-1e+09_" in file_name(config(fill=-1e9), "weights", "npz")


def test_different_texts_get_different_names() -> None:
    names = {file_name(config(), "weights", "csv", tokens=words) for words in ("ab", "ba", None)}
    assert len(names) == 3


def test_stems_name_the_selection() -> None:
    assert stem(Selection(("scores", "after_dropout"), (0, 3), (1,))) == (
        "scores-after_dropout_heads0-3_item1"
    )
    assert stem(Selection(heads=tuple(range(60)))) == "weights_heads0and59more"


def test_every_format_reports_progress_to_the_end() -> None:
    for name, form in FORMATS.items():
        seen: list[float] = []
        one = Selection(heads=(0,), items=(1,))
        form.build(traced(), one, progress=lambda done, _what, seen=seen: seen.append(done))  # type: ignore[misc]
        assert seen[-1] == 1.0, name
        assert seen == sorted(seen), name
        assert seen[0] >= 0.0, name


def test_what_progress_raises_ends_the_export() -> None:
    def cancel(_done: float, _what: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        FORMATS["pdf"].build(traced(), progress=cancel)
    # ... and the next one is not blocked by it.
    assert FORMATS["pdf"].build(traced(), Selection(heads=(HEADS - 1,))).startswith(b"%PDF")
