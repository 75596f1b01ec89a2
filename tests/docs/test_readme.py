"""The README's examples run, and its options table is the program's."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from femgpu import options

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_there_are_four_examples():
    assert len(EXAMPLES) == 4


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_runs(example, tmp_path):
    done = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_options_table_is_current():
    assert markdown_table() in README


def markdown_table() -> str:
    """The table as the README has it."""
    rows = ["| option | default | meaning |", "|---|---|---|"]
    for option in options.OPTIONS:
        legal = f": {', '.join(f'`{choice}`' for choice in option.legal)}" if option.choices else ""
        default = str(option.default).lower() if option.kind is bool else option.default
        rows.append(f"| `-{option.name}` | {f'`{default}`' if default != '' else ''} | {option.help}{legal} |")
    return "\n".join(rows)


def test_commands_exist():
    for command in re.findall(r"^\./(scripts/\w+)", README, re.MULTILINE):
        assert (ROOT / command).exists()
