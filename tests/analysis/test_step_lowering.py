"""The lowered step: static shapes, the whole update, and the precision asked for."""

import re

import pytest

from helpers.lowered_steps import LENGTH, ROWS, lower


@pytest.mark.parametrize("micro_batches", [1, 3])
def test_the_lowered_step_is_static_and_updates_weights_and_moments(micro_batches):
    text, _ = lower(micro_batches)
    assert "?x" not in text
    assert f"tensor<{ROWS}x{LENGTH}xi32>" in text
    results = re.findall(r"^    return (.*) :", text, re.MULTILINE)[-1]
    variables = 25
    # All weights, both moments of each, the step count and more beside the report.
    assert len(results.split(",")) > 3 * variables


def test_bfloat16_multiplies_in_bfloat16_and_keeps_weights_in_float32():
    text, _ = lower(precision="bfloat16")
    products = re.findall(r"dot_general.* -> tensor<[\dx]*x(\w+)>", text)
    assert products.count("bf16") > 0.9 * len(products)
    signature = text[text.index("@main") : text.index("{\n", text.index("@main"))]
    assert "bf16" not in signature
