"""In which form a client wants its messages."""

from __future__ import annotations

from lakemq.contract import forms

JSON, NDJSON, ARROW = forms.JSON.encode(), forms.NDJSON.encode(), forms.ARROW.encode()


def choose_media(accept: bytes | None) -> bytes:
    """The answer's media type by the request's `Accept`: JSON when it allows anything."""
    if accept is None:
        return JSON
    ranges: list[tuple[float, bytes]] = []
    for part in accept.lower().split(b","):
        media, _, parameters = part.partition(b";")
        quality = 1.0
        for parameter in parameters.split(b";"):
            name, _, value = parameter.strip().partition(b"=")
            if name == b"q":
                try:
                    quality = float(value)
                except ValueError:
                    quality = 0.0
        ranges.append((quality, media.strip()))
    for quality, media in sorted(ranges, key=lambda entry: -entry[0]):
        if quality > 0 and media in (JSON, NDJSON, ARROW):
            return media
    return JSON
