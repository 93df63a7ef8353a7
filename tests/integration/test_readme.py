"""What the README tells a newcomer to type is typed here, word by word, on a stack of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def first_table() -> str:
    """The commands of "Your first table in five minutes"."""
    section = (ROOT / "README.md").read_text().split("## Your first table in five minutes")[1]
    match = re.search(r"```bash\n(.*?)```", section, re.DOTALL)
    assert match is not None
    return match[1]


def test_the_first_table_of_the_readme(tmp_path: Path) -> None:
    script = first_table().replace("lakehouse stack up ", "lakehouse stack up --free-ports ")
    assert "--free-ports" in script
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    trap = "trap 'lakehouse stack down >/dev/null' EXIT\n"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", trap + script],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 declaration, no mistake" in done.stdout
    assert "2 inserted" in done.stdout
    assert "everything holds" in done.stdout


def test_links_of_readme_and_docs_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for target in re.findall(r"\]\((?!https?://)([^)#]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_make_targets_of_the_readme_exist() -> None:
    named = set(re.findall(r"^make (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE))
    makefile = (ROOT / "Makefile").read_text()
    assert named and all(re.search(rf"^{name}:", makefile, re.MULTILINE) for name in named)
