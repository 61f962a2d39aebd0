"""A bar chart in text, in which no label runs into a bar and no line is longer than the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

from lakemq.model.safe_text import one_line

WIDTH = 40
WIDTH_MIN = 5
LABEL_MAX = 32
"""Columns of a bar, and of a label; a longer label is cut."""


def bars(
    rows: Sequence[tuple[str, float]], unit: str = "", width: int = WIDTH, label_max: int = LABEL_MAX
) -> list[str]:
    """A line for each row: its label, a bar of at most `width` columns, its value. Bars below 0 are drawn hollow."""
    if not rows:
        return []
    labels = [_cut(one_line(label, LABEL_MAX * 2), label_max) for label, _ in rows]
    values = _values([value for _, value in rows])
    largest = max(abs(value) for _, value in rows) or 1.0
    left, right = max(map(cell_len, labels)), max(map(len, values))
    lines: list[str] = []
    for label, shown, (_, value) in zip(labels, values, rows, strict=True):
        bar = ("█" if value >= 0 else "░") * round(abs(value) / largest * width)
        lines.append(f"{set_cell_size(label, left)}  {bar:<{width}}  {shown:>{right}} {unit}".rstrip())
    return lines


def bars_within(rows: Sequence[tuple[str, float]], columns: int) -> list[str]:
    """The same, with bars as long as a terminal of so many columns has room for."""
    label_max = min(LABEL_MAX, columns // 3)
    taken = max((cell_len(line) for line in bars(rows, width=0, label_max=label_max)), default=0)
    return bars(rows, width=max(columns - taken, WIDTH_MIN), label_max=label_max)


def _values(values: Sequence[float]) -> list[str]:
    if all(isinstance(each, int) for each in values):
        return [f"{each:,}" for each in values]
    digits = 3 if 0 < max(map(abs, values)) < 1 else 1
    return [f"{each:,.{digits}f}" for each in values]


def _cut(label: str, columns: int) -> str:
    return label if cell_len(label) <= columns else f"{set_cell_size(label, columns - 1)}…"
