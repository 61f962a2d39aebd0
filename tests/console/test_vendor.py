"""What pages load of others: pinned, as it came, with its license."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "lakemq" / "console" / "static"
VENDOR = STATIC / "vendor"


def test_each_file_is_the_one_that_was_pinned() -> None:
    pinned = json.loads((VENDOR / "versions.json").read_text())
    files = {name: digest for package in pinned.values() for name, digest in package["files"].items()}
    assert files == {
        each.name: hashlib.sha256(each.read_bytes()).hexdigest()
        for each in VENDOR.iterdir()
        if each.name != "versions.json"
    }
    script = (ROOT / "scripts" / "console-vendor.sh").read_text()
    for name, package in pinned.items():
        assert re.search(rf"^get {re.escape(name)} {re.escape(package['version'])} \S{{88}}$", script, re.MULTILINE)
        assert any(each.endswith("LICENSE") for each in package["files"])


def test_pages_load_nothing_from_elsewhere_and_have_no_script_or_style_of_their_own() -> None:
    templates = sorted((ROOT / "lakemq" / "console" / "templates").glob("*.html"))
    assert len(templates) > 15
    for each in templates:
        text = each.read_text()
        assert not re.search(r"(?:src|href|action)=[\"'](?:https?:)?//", text), each.name
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:|\|\s*safe|autoescape false", text), each.name
        assert all(tag.endswith(" defer></script>") for tag in re.findall(r"<script.*?</script>", text, re.DOTALL))
    for own in ("console.css", "console.js", "plot.js", "sql.js"):
        assert "://" not in (STATIC / own).read_text()
