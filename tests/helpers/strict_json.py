"""JSON as the standard has it, which other languages read."""

import json


def assert_strict_json(folder):
    """Parses all JSON files below a folder, which must hold no NaN or infinity.

    Returns:
      Their number.
    """

    def refuse(constant):
        raise AssertionError(f"{path} holds {constant}")

    paths = sorted(folder.rglob("*.json"))
    for path in paths:
        json.loads(path.read_bytes(), parse_constant=refuse)
    assert paths
    return len(paths)
