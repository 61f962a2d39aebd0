"""The pages are a site that needs no network: each link leads somewhere, and the search answers."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import expect

from tests.console.browser import WAIT_MS, open_browser
from tests.docs.documents import DOCUMENTS, ROOT
from tests.docs.site import DIAGRAMS, OF_SITE, SEARCH, build, main

LOADED = re.compile(r"<(?:script|img|iframe)[^>]* src=\"https?:|<link[^>]* href=\"https?:")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("site"))


def test_every_page_is_in_it_and_in_its_navigation(site: Path) -> None:
    navigation = (ROOT / "docs/site/zensical.toml").read_text("utf-8")
    for document in DOCUMENTS:
        path = document.removesuffix(".md")
        page = re.sub(r"README$", "index", path)
        assert (site / f"{page}.html").is_file(), document
        assert f'"{document}"' in navigation, f"{document} is not in nav of docs/site/zensical.toml"


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > len(DOCUMENTS)
    assert {page.name: found for page in pages if (found := LOADED.findall(page.read_text("utf-8")))} == {}


def test_a_link_that_leads_nowhere_stops_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tree/docs/site").mkdir(parents=True)
    (tmp_path / "tree/README.md").write_text("# One page\n\n[sql](sql.md)\n")
    for name in ("zensical.toml", SEARCH, DIAGRAMS):
        (tmp_path / "tree/docs/site" / name).write_bytes((ROOT / "docs/site" / name).read_bytes())
    config = tmp_path / "tree/docs/site/zensical.toml"
    config.write_text(re.sub(r"^nav = .*?^]\n", "", config.read_text(), flags=re.MULTILINE | re.DOTALL))
    monkeypatch.setattr("tests.docs.site.ROOT", tmp_path / "tree")
    monkeypatch.setattr("tests.docs.site.OF_SITE", tmp_path / "tree/docs/site")
    monkeypatch.setattr("tests.docs.site.DOCUMENTS", ["README.md"])
    with pytest.raises(SystemExit, match=r"sql\.md"):
        build(tmp_path / "built")


def test_the_search_answers_without_a_network(site: Path) -> None:
    with open_browser() as browser, browser.new_context(offline=True) as context:
        page = context.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / "docs/sql.html").as_uri())
        page.get_by_role("button", name="Search").first.click()
        page.get_by_role("combobox").fill("redrive dead letters")
        found = page.locator("a", has_text="lakemq dead-letters redrive")
        expect(found.first).to_be_visible(timeout=WAIT_MS)
        assert [url for url in asked if not url.startswith(("file:", "blob:", "data:"))] == []


def test_a_reader_chooses_among_the_versions_that_are_there(site: Path, tmp_path: Path) -> None:
    for other in ("0.9.1", "0.10.0"):
        shutil.copytree(site, tmp_path / "versions" / other)
    main(["--into", str(tmp_path), "--version", "0.9"])
    with served(tmp_path / "versions") as url, open_browser() as browser:
        page = browser.new_page()
        page.goto(url)
        page.wait_for_url(f"{url}0.10.0/index.html")
        page.goto(f"{url}0.9/docs/sql.html")
        chosen = page.locator(".md-version__current")
        expect(chosen).to_have_text("0.9", timeout=WAIT_MS)
        chosen.focus()  # the list comes then
        assert page.locator(".md-version__link").all_inner_texts() == ["0.10.0", "0.9.1", "0.9"]
        page.locator(".md-version__link", has_text="0.10.0").click()
        page.wait_for_url(re.compile(r"/0\.10\.0/"))
    with pytest.raises(SystemExit, match="is no version"):
        main(["--into", str(tmp_path), "--version", "../1"])


@contextmanager
def served(folder: Path) -> Generator[str]:
    """A web server that has these files, as one would have the site."""
    handler = partial(SimpleHTTPRequestHandler, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_every_diagram_is_drawn_without_a_network(site: Path) -> None:
    written = {each: (ROOT / each).read_text("utf-8").count("```mermaid") for each in DOCUMENTS}
    assert sum(written.values()) > 10
    with open_browser() as browser, browser.new_context(offline=True) as context:
        # The theme draws into a shadow tree that it closes; here it stays open, to be looked at.
        context.add_init_script(
            "const attach = Element.prototype.attachShadow;"
            "Element.prototype.attachShadow = function () { return attach.call(this, {mode: 'open'}); }"
        )
        for document in (each for each, count in written.items() if count):
            page = context.new_page()
            asked: list[str] = []
            page.on("request", lambda request, asked=asked: asked.append(request.url))
            page.goto((site / document).with_suffix(".html").as_uri())
            drawn = page.locator("div.mermaid svg")
            expect(drawn).to_have_count(written[document], timeout=WAIT_MS)
            for each in drawn.all():
                assert "Syntax error" not in (each.text_content() or ""), document
                box = each.bounding_box()
                assert box is not None, document
                assert min(box["width"], box["height"]) > 30, (document, box)
            assert [url for url in asked if not url.startswith(("file:", "blob:", "data:"))] == []
            page.close()


def test_the_library_of_diagrams_is_the_pinned_one() -> None:
    pinned = json.loads((OF_SITE / "versions.json").read_text())
    script = (ROOT / "scripts/docs-vendor.sh").read_text()
    for name, package in pinned.items():
        assert f"package={name}\nversion={package['version']}\n" in script
        assert any(each.endswith("LICENSE") for each in package["files"])
        for file, digest in package["files"].items():
            assert hashlib.sha256((OF_SITE / file).read_bytes()).hexdigest() == digest
