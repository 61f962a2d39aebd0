"""A schema of orders, as topics of tests have it."""

from __future__ import annotations

from typing import Any

ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "total": {"type": "number", "multipleOf": 0.01},
        "at": {"type": "string", "format": "date-time"},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "required": ["id"],
}
