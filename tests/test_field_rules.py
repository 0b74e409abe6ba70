"""Rules for values: what they let through, and what they say."""

import dataclasses

import pytest

from albert_tf import field_rules


@pytest.mark.parametrize(
    ("known", "good", "bad"),
    [
        (field_rules.COUNT, [1, 2**63 - 1], [0, 1.0, True, "1", None, 2**63]),
        (field_rules.count(0, 7), [0, 7], [-1, 8, 10**400]),
        (field_rules.POSITIVE, [1, 0.5], [0, float("nan"), float("inf"), 10**400]),
        (field_rules.NOT_NEGATIVE, [0, 3.5], [-1, "3"]),
        (field_rules.BELOW_ONE, [0, 0.5], [1, -0.1, True]),
        (field_rules.BOOL, [True, False], [0, "true", None]),
        (field_rules.TEXT, ["a"], ["", 7, ["a"]]),
        (field_rules.TEXTS, [[], ["a", "b"]], ["ab", [1], [""], None]),
        (field_rules.choices("a", "b"), ["a"], ["c", None]),
        (field_rules.optional(field_rules.BOOL), [None, True], [1]),
    ],
)
def test_rules_hold_for_good_values_and_name_bad_ones(known, good, bad):
    for value in good:
        field_rules.check("size", value, known)
    for value in bad:
        with pytest.raises(ValueError, match="size must be") as caught:
            field_rules.check("size", value, known)
        assert known["rule"] in str(caught.value) and len(str(caught.value)) < 200


def test_fields_are_checked_by_their_metadata():
    @dataclasses.dataclass
    class Sizes:
        width: int = dataclasses.field(default=3, metadata=field_rules.COUNT)
        note: str = ""

    field_rules.check_fields(Sizes())
    with pytest.raises(ValueError, match=r"width must be .* Received -2\."):
        field_rules.check_fields(Sizes(width=-2))
