"""Every error is a ValueError that names the field, the value, the rule and what would work."""

from __future__ import annotations

import pytest

from mha_core import BudgetError, ConfigError
from mha_core.errors import human_bytes


def test_the_message_has_all_that_the_attributes_have():
    error = ConfigError("heads", 3, "must divide", works="2 and 4 work", repairs=[{"heads": 2}])
    assert str(error) == "heads=3: must divide. 2 and 4 work."
    assert (error.field, error.value, error.rule) == ("heads", 3, "must divide")
    assert error.repairs == ({"heads": 2},)
    assert isinstance(error, ValueError)


def test_an_error_without_a_way_out_ends_at_the_rule():
    assert str(ConfigError("text", "", "must have a word")) == "text='': must have a word."


def test_the_repairs_are_copies():
    repair = {"heads": 2}
    error = ConfigError("heads", 3, "must divide", repairs=[repair])
    repair["heads"] = 5
    assert error.repairs == ({"heads": 2},)


def test_a_budget_error_has_the_figures_and_the_largest_time():
    error = BudgetError(needed=3 * 2**30, limit=2**29, largest_time=1000, time=4096)
    assert isinstance(error, ConfigError)
    assert "time=4096" in str(error)
    assert "about 3.0 GiB, over the limit of 512.0 MiB" in str(error)
    assert "The largest time that fits is 1000" in str(error)
    assert error.repairs == ({"time": 1000},)
    assert (error.needed, error.limit) == (3 * 2**30, 2**29)


def test_a_budget_that_no_time_fits_offers_none():
    error = BudgetError(needed=10, limit=5, largest_time=0, time=6)
    assert "No time fits" in str(error)
    assert error.repairs == ()


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (2**20, "1.0 MiB"),
        (5 * 2**30, "5.0 GiB"),
        (2**40, "1.0 TiB"),
        (2**52, "4096.0 TiB"),
    ],
)
def test_bytes_have_binary_units(count, text):
    assert human_bytes(count) == text
