"""A small bar chart in text."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH = 40


def bars(rows: Sequence[tuple[str, float]], unit: str, width: int = WIDTH) -> list[str]:
    """A line for each row: its label, a bar, its value. Bars below 0 are drawn hollow."""
    if not rows:
        return []
    label_width = max(len(label) for label, _ in rows)
    largest = max(abs(value) for _, value in rows) or 1.0
    lines: list[str] = []
    for label, value in rows:
        length = round(abs(value) / largest * width)
        bar = ("█" if value >= 0 else "░") * length
        lines.append(f"{label:<{label_width}}  {bar:<{width}}  {value:6.1f} {unit}")
    return lines
