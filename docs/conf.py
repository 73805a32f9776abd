"""Settings of Sphinx for the documentation site (`make docs`)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from pages import environments, reference, statistics, write_changed

import orbitcc

project = "OrbitCC"
author = "the OrbitCC authors"
version = release = orbitcc.__version__
html_title = f"OrbitCC {release}"

extensions = ["myst_nb"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
myst_all_links_external = False
nb_execution_mode = "off"  # the notebook is committed with its outputs; a test executes it
exclude_patterns = ["generated/README.md", "pages", "Thumbs.db"]
suppress_warnings = ["myst.header", "misc.highlighting_failure"]

html_theme = "furo"
html_theme_options = {"light_css_variables": {"font-stack": "system-ui, sans-serif"}}
html_static_path: list[str] = ["static"]
html_css_files = ["site.css"]
html_show_sphinx = html_show_copyright = False
html_copy_source = html_show_sourcelink = False

GENERATED = Path(__file__).parent / "generated"

environments.write(GENERATED / "environments")
write_changed(GENERATED / "scenario-files.md", reference.scenario_page())
write_changed(GENERATED / "recipes.md", reference.recipe_page())
write_changed(GENERATED / "assessment-limits.md", reference.limits_page())
write_changed(GENERATED / "suites.md", reference.suite_page())
write_changed(GENERATED / "observations.md", reference.observation_page())
write_changed(GENERATED / "statistics.inc", statistics.table())
api = reference.api_pages()
for page in (GENERATED / "api").glob("*.md"):
    if page.stem not in api:  # of a module that is gone
        page.unlink()
for name, text in api.items():
    write_changed(GENERATED / "api" / f"{name}.md", text)
