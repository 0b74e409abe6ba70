"""Tables from a program that the TPU compiler has made."""

import pytest

from dev import tpu_program
from helpers.tpu_programs import PROGRAM

TRIPLE = 3 * 32 * 128 * 2  # bytes of bf16[3,30,100] in memory
MATRIX = 32 * 128 * 4
ROW = 128 * 4


def test_temporaries_are_those_that_live_when_they_need_the_most_memory():
    largest = tpu_program.summarize(PROGRAM)["largest_temporaries"]
    # While the second product runs: its result leaves the step, so it is none, nor is
    # what lies inside the core; the loop and the row sums are over.
    assert largest == [
        {
            "bytes": TRIPLE,
            "count": 1,
            "tensor": "bf16[3,30,100]",
            "operation": "block/einsum",
        },
        {
            "bytes": MATRIX,
            "count": 1,
            "tensor": "f32[30,100]",
            "operation": "gradient of block/projection_2/einsum",
        },
    ]


def test_traffic_is_what_operations_write_and_what_they_read_of_their_operands():
    traffic = tpu_program.summarize(PROGRAM)["largest_traffic"]
    found = {(row["kind"], row["operation"]): row for row in traffic}
    # Two layers; each reads a third of the tensor that is kept.
    products = found["matrix products", "gradient of block/projection_2/einsum"]
    assert products["count"] == 2
    assert products["bytes"] == 2 * (MATRIX + TRIPLE // 3)
    assert found["sums", "block/einsum"]["bytes"] == 2 * TRIPLE + ROW
    assert found["sums", "lamb/norm/Sum"]["bytes"] == MATRIX + 4
    assert found["sums", "while/Sum"]["bytes"] == 16 * 128 * 4 + ROW
    assert found["element-wise", "Neg"]["bytes"] == ROW
    sizes = [row["bytes"] for row in traffic]
    assert sizes == sorted(sizes, reverse=True)


def test_traffic_of_all_operations_is_summed_by_kind():
    summary = tpu_program.summarize(PROGRAM, most=2)
    assert len(summary["largest_traffic"]) == 2
    everything = tpu_program.summarize(PROGRAM)["largest_traffic"]
    for kind, total in summary["traffic_bytes"].items():
        assert total == sum(row["bytes"] for row in everything if row["kind"] == kind)


def test_layers_that_share_no_weights_stand_together():
    first, second = (
        f'%a.{n} = f32[3,5]{{1,0}} negate(), metadata={{op_name="my_model/'
        f'transformer_block_{n}/self_attention_{n}/dropout_{3 * n}/Mul"}}'
        for n in (1, 2)
    )
    text = f"ENTRY %main () -> () {{\n  {first}\n  {second}\n}}"
    (row,) = tpu_program.summarize(text)["largest_traffic"]
    assert row["operation"] == "self_attention/dropout/Mul" and row["count"] == 2
    assert row["bytes"] == 2 * 3 * 5 * 4


def test_a_table_has_gigabytes_and_counts():
    rows = [
        {"bytes": 1_234_567_890, "count": 12, "tensor": "bf16[2]", "operation": "a/b"},
        {"bytes": 2_000_000, "count": 1, "tensor": "f32[3,4,5]", "operation": "c"},
    ]
    assert tpu_program.table(rows, ["tensor", "operation"]).splitlines() == [
        "      GB  count  tensor      operation",
        "   1.235     12  bf16[2]     a/b",
        "   0.002      1  f32[3,4,5]  c",
    ]


def test_a_text_that_is_no_program_is_refused():
    with pytest.raises(ValueError, match="no entry computation"):
        tpu_program.parse("HloModule empty\n")
