"""What the audit says of a statement: what kind of one it is, and which of the tables here it names. Nothing else of
its text, which may have anything in it."""

from __future__ import annotations

import re

from lakemq.jobs.served.readable import SERVED

_WORDS = """
SELECT WITH FROM TABLE VALUES INSERT UPDATE DELETE MERGE CREATE DROP ALTER TRUNCATE SHOW DESCRIBE DESC EXPLAIN SET RESET
USE ADD LIST CACHE UNCACHE CLEAR REFRESH ANALYZE CALL GRANT REVOKE LOAD EXECUTE DECLARE BEGIN MSCK REPAIR OPTIMIZE
VACUUM RESTORE CONVERT COPY
"""
CHARACTERS_MAX = 4_000
"""Of what is long the begin says enough: the loop waits for it."""
_KINDS = frozenset(_WORDS.split())
_SPACE = r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.{0,200}?\*/)"
_FIRST = re.compile(rf"(?:{_SPACE}|\()*([A-Za-z]+)", re.DOTALL)
_NAMED = re.compile(
    rf"(?:\b(?:FROM|JOIN|INTO|UPDATE|TABLE){_SPACE}|,){_SPACE}*`?(\w+)`?(?:{_SPACE}*\.{_SPACE}*`?(\w+)`?)?",
    re.IGNORECASE | re.DOTALL,
)
_NAMES = {".".join(parts) for parts in SERVED}


def in_short(statement: str) -> str:
    """Its first word, if that is one of SQL's, and the tables."""
    statement = statement[:CHARACTERS_MAX]
    found = _FIRST.match(statement)
    kind = found[1].upper() if found is not None else ""
    named = {".".join(filter(None, each.groups())).lower() for each in _NAMED.finditer(statement)}
    tables = ", ".join(sorted(named & _NAMES))
    return f"{kind if kind in _KINDS else 'a statement'} {tables}".rstrip()
