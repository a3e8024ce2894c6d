"""Completion scripts know the commands, their options and the choices of options."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from drcrm.cli.arguments import COMMANDS

CASES = {
    "drcrm ": [*COMMANDS],
    "drcrm evalu": ["evaluate_policy"],
    "drcrm learn log.csv --rep": ["--report"],
    "drcrm certify p.npz log.csv --estimate ": ["dr", "snips", "ips"],
    "drcrm learn log.csv --fail-unless n": ["not-worse"],
    "drcrm completion ": ["bash", "zsh", "fish"],
}
BASH = """source "$1"
COMP_WORDS=($2); [[ $2 == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _drcrm; printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize("line", CASES)
@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_words_are_completed(shell, line, tmp_path, run):
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "script").write_text(run("completion", shell)[1])
    program = BASH if shell == "bash" else "source $argv[1]; complete -C $argv[2]"
    words = ["script"] if shell == "bash" else []
    command = [shell, "-c", program, *words, tmp_path / "script", line]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    words = [text.partition("\t")[0] for text in done.stdout.splitlines()]  # fish adds descriptions
    assert sorted(words) == sorted(CASES[line])


def test_zsh_uses_the_completion_of_bash(run):
    assert run("completion", "zsh")[1].endswith(run("completion", "bash")[1])
