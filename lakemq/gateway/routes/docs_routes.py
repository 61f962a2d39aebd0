"""`/docs` and `/openapi.json`: a page of our own, which loads nothing from anywhere else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, JSONResponse

from lakemq.contract import routes
from lakemq.gateway.http.by_fastapi import serves

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
details { border: 1px solid #ddd; border-radius: 4px; margin: .4rem 0; padding: .3rem .8rem }
summary { cursor: pointer } b { display: inline-block; min-width: 4.5rem; color: #06c }
pre { background: #f6f6f6; padding: .6rem; overflow: auto } td, th { padding: 0 1rem 0 0; text-align: left }
h2 { text-transform: capitalize } .doc { white-space: pre-line }
"""

_SCRIPT = """
const make = (name, parent, text) => {
  const made = parent.appendChild(document.createElement(name));
  if (text !== undefined) made.textContent = text;
  return made;
};
const follow = (node, all, depth) => {
  if (Array.isArray(node)) return node.map((each) => follow(each, all, depth));
  if (node === null || typeof node !== "object") return node;
  if (node.$ref && depth < 6) return follow(all.components.schemas[node.$ref.split("/").pop()], all, depth + 1);
  return Object.fromEntries(Object.entries(node).map(([name, each]) => [name, follow(each, all, depth)]));
};
const show = (path, method, operation, all) => {
  const details = make("details", document.body), summary = make("summary", details);
  make("b", summary, method.toUpperCase());
  make("code", summary, path);
  make("span", summary, " " + (operation.summary || ""));
  if (operation.description) make("p", details, operation.description).className = "doc";
  const table = make("table", details);
  for (const parameter of operation.parameters || []) {
    const row = make("tr", table), schema = follow(parameter.schema || {}, all, 0);
    make("td", row, parameter.name + (parameter.required ? " *" : ""));
    make("td", row, parameter.in);
    make("td", row, JSON.stringify(schema));
    make("td", row, parameter.description || "");
  }
  for (const [media, content] of Object.entries((operation.requestBody || {}).content || {})) {
    make("p", details, "body: " + media);
    const known = content.example || content.schema;
    if (known) make("pre", details, JSON.stringify(follow(known, all, 0), null, 2));
  }
};
fetch("openapi.json").then((answer) => answer.json()).then((all) => {
  make("h1", document.body, all.info.title + " " + all.info.version);
  make("p", document.body, all.info.description).className = "doc";
  const byTag = {};
  for (const [path, operations] of Object.entries(all.paths))
    for (const [method, operation] of Object.entries(operations))
      ((byTag[(operation.tags || [""])[0]] ||= [])).push([path, method, operation]);
  for (const [tag, operations] of Object.entries(byTag)) {
    make("h2", document.body, tag);
    for (const each of operations) show(...each, all);
  }
});
"""

_PAGE = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>lakemq</title><style>{_STYLE}</style></head>
<body><noscript><a href="openapi.json">openapi.json</a></noscript><script>{_SCRIPT}</script></body></html>
"""


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


_HEADERS = {
    "content-security-policy": (
        f"default-src 'none'; connect-src 'self'; script-src 'sha256-{_hash(_SCRIPT)}'; "
        f"style-src 'sha256-{_hash(_STYLE)}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
}


def make_router(describe: Callable[[], dict[str, Any]]) -> APIRouter:
    """The routes; `describe` makes the document."""
    router = APIRouter(include_in_schema=False)

    @serves(router, routes.DOCS)
    @serves(router, routes.DOCS_HEAD)
    async def docs() -> HTMLResponse:  # pyright: ignore[reportUnusedFunction]
        return HTMLResponse(_PAGE, headers=_HEADERS)

    @serves(router, routes.OPENAPI)
    @serves(router, routes.OPENAPI_HEAD)
    async def openapi() -> JSONResponse:  # pyright: ignore[reportUnusedFunction]
        return JSONResponse(describe())

    return router
