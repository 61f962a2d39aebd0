"""The environment alone says every setting: containers need no file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from lakemq.model.environment import name_of
from lakemq.settings import Settings, load

NO_FILE = Path("/dev/null")
DEFAULTS = Settings()
SECTIONS: dict[str, BaseModel] = {name: getattr(DEFAULTS, name) for name in Settings.model_fields}
ALL = [(section, key) for section, values in SECTIONS.items() for key in type(values).model_fields]
FILES = {"token_file", "nameserver_token_file", "admin_token_file"}
OTHERS: dict[tuple[str, str], tuple[str, Any]] = {
    ("auth", "audit"): ("true", True),
    ("lake", "work_dir"): ("/var/lib/lakemq/work", Path("/var/lib/lakemq/work")),
    ("delay", "levels"): ("1s 2m", (1_000, 120_000)),
    **{each: ("/run/secrets/a.token", Path("/run/secrets/a.token")) for each in ALL if each[1] in FILES},
}
"""Those whose default can't be said, or not as it is shown: a text, and what it means."""


def said(value: Any) -> str:
    """How the environment says it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(str(each) for each in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, BaseModel):
        return value.model_dump_json()
    return json.dumps(value) if isinstance(value, dict) else str(value)


def test_each_setting_is_one_of_the_environment() -> None:
    for section, key in ALL:
        default = getattr(SECTIONS[section], key)
        text, meant = OTHERS[section, key] if (section, key) in OTHERS else (said(default), default)
        assert meant is not None, f"say in OTHERS how the environment says {section}.{key}"
        settings = load(NO_FILE, {name_of(section, key): text})
        assert getattr(getattr(settings, section), key) == meant, f"{section}.{key}"
