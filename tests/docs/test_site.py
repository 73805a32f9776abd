"""The documentation site: it builds without a warning, its links hold, and it loads nothing from elsewhere."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from orbitcc.envs.environments.registration import IDS

ROOT = Path(__file__).parents[2]
LOADED = {
    "img": "src",
    "script": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "link": "href",
}

pytestmark = pytest.mark.slow


class Page(HTMLParser):
    """Anchors, links and what a browser loads by itself."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loads = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.ids |= {attributes[key] for key in ("id", "name") if attributes.get(key)}
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
        if tag in LOADED and attributes.get(LOADED[tag]):
            self.loads.append(attributes[LOADED[tag]])


@pytest.fixture(scope="module")
def site():
    """The built site, as `make docs` builds it; what it has built and has not changed is not built again."""
    pytest.importorskip("myst_nb", reason="the group `docs` is not installed (`make full` brings it)")
    pytest.importorskip("furo")
    out = ROOT / "build" / "docs"
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", "docs", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=1500)
    assert done.returncode == 0, done.stderr[-3000:]
    return {path: Page(path.read_text(encoding="utf-8")) for path in out.rglob("*.html")}


def test_every_environment_has_a_page_with_a_film(site):
    pages = {path.stem: path for path in site}
    for scenario in IDS.values():
        text = pages[scenario].read_text(encoding="utf-8")
        assert f"{scenario}.gif" in text
        assert "import orbitcc" in re.sub(r"<[^>]+>", "", text)


def test_internal_links_lead_somewhere(site):
    wrong = []
    for path, page in site.items():
        for link in page.links + page.loads:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            ids = site[target].ids if target in site else None
            if not target.exists() or (ids is not None and parts.fragment and unquote(parts.fragment) not in ids):
                wrong.append(f"{path.name}: {link}")
    assert not wrong


def test_nothing_is_loaded_from_elsewhere(site):
    root = next(path.parent for path in site if path.name == "genindex.html")
    for path, page in site.items():
        assert not [address for address in page.loads if urlsplit(address).netloc], path.name
    for sheet in root.rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        assert not re.search(r"""(@import|url\()\s*['"]?(https?:)?//""", text), sheet.name
