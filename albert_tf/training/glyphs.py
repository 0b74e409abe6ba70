"""Names in pictures, as far as the font of pictures can show them."""

from collections.abc import Iterable, Sequence


def shown_names(names: Sequence[str], places: Iterable[int]) -> list[str]:
    """Returns names, those with characters that the font lacks by their places.

    Otherwise matplotlib would warn of each of these characters, and draw boxes.

    Args:
      names: the names.
      places: a number of each.
    """
    from matplotlib.font_manager import FontProperties, findfont, get_font

    known = get_font(findfont(FontProperties())).get_charmap()
    return [
        name if all(ord(character) in known for character in name) else str(place)
        for name, place in zip(names, places, strict=True)
    ]
