"""The page on the log's format tells the truth: its worked example is what the code writes."""

from __future__ import annotations

import re
from pathlib import Path
from uuid import UUID

from lakemq.storage.segment.content import encode_content, form
from lakemq.storage.segment.frame import KIND_MESSAGES, LogEpoch, encode_queue
from lakemq.storage.segment.rows import PayloadCodec, make_row
from tests.storage.harness import whole_frame

PAGE = Path(__file__).parents[3] / "docs" / "log_format.md"
LINE = re.compile(r"^([0-9a-f]{4})  ((?:[0-9a-f]{2} ?)+)", re.MULTILINE)


def test_worked_example_is_what_the_code_writes() -> None:
    codec = PayloadCodec("lz4", 4096)
    content = form([make_row(body=b"hello", tag="T")], 5, codec)
    runs = [(3, 1, encode_queue("orders", 2))]
    log = LogEpoch(UUID("5b1f3c6e-0d0a-4a9b-9d52-7f0c2a9be641").bytes, 1)
    frame = whole_frame(
        log,
        KIND_MESSAGES,
        7,
        1_790_000_000_000,
        1,
        content.mask,
        runs,
        b"",
        encode_content(content, 5, codec),
        0,
        content.encoding,
    )
    lines = LINE.findall(PAGE.read_text(encoding="utf-8"))
    assert len(lines) == 9
    for at, text in lines:
        expected = bytes.fromhex(text)
        assert frame[int(at, 16) : int(at, 16) + len(expected)] == expected
    assert len(frame) == 144
