"""``course``: every subcommand is there, and wrong use is answered in words."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import pytest
import yaml

from helpers import cli, doctor, lab

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_leads_to_a_function(command: str) -> None:
    module, function = cli.COMMANDS[command][0].split(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_an_unknown_command_lists_those_there_are(capsys) -> None:
    assert cli.main(["grades"]) == 2
    message = capsys.readouterr().err
    assert "no command 'grades'" in message and "regrade" in message


def test_help_names_every_command(capsys) -> None:
    assert cli.main([]) == 0
    shown = capsys.readouterr().out
    assert all(command in shown for command in cli.COMMANDS)


def test_the_trusted_side_and_the_command_line_start_without_torch() -> None:
    code = "import sys, helpers.cli, helpers.authoring, helpers.course, helpers.grading; print('torch' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"


def test_lab_outside_the_course_says_where_to_run_it(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert lab.main([]) == 1
    assert "course's folder" in capsys.readouterr().err


def test_doctor_finds_a_changed_helper_in_a_release(tmp_path: Path, capsys) -> None:
    (tmp_path / "helpers").mkdir()
    module = tmp_path / "helpers" / "numerics.py"
    module.write_text("right = True\n")
    (tmp_path / "helpers" / doctor.RELEASE).write_text(json.dumps(doctor.fingerprint(tmp_path)))
    doctor.main(["--root", str(tmp_path)])
    assert "numerics" not in capsys.readouterr().out
    module.write_text("right = False\n")
    doctor.main(["--root", str(tmp_path)])
    assert "helpers/numerics.py differs from the release" in capsys.readouterr().out
    module.unlink()
    doctor.main(["--root", str(tmp_path)])
    assert "helpers/numerics.py is missing" in capsys.readouterr().out


def test_doctor_names_an_old_package_with_the_version_needed(tmp_path: Path, monkeypatch, capsys) -> None:
    real = doctor.version
    monkeypatch.setattr(doctor, "version", lambda name: "1.13.1" if name == "torch" else real(name))
    assert doctor.main(["--root", str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert "torch 1.13.1 is installed, the course needs >=" in shown and "pip install" in shown


def test_doctor_names_a_missing_kernel(tmp_path: Path, monkeypatch, capsys) -> None:
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    def nothing(self: KernelSpecManager, name: str) -> None:
        raise NoSuchKernel(name)

    monkeypatch.setattr(KernelSpecManager, "get_kernel_spec", nothing)
    assert doctor.main(["--root", str(tmp_path)]) == 1
    assert "ipykernel install" in capsys.readouterr().out


CONDA_NAMES = {"pytorch-cpu": "torch", "matplotlib-base": "matplotlib"}


def test_environment_and_pyproject_ask_for_the_same_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
    asked = {each for each in environment if isinstance(each, str) and ">=" in each}
    conda = {re.sub(r"^[\w-]+", lambda name: CONDA_NAMES.get(name[0], name[0]), each) for each in asked}
    assert conda == set(project["dependencies"])


def test_constraints_pin_every_dependency_within_its_range() -> None:
    from packaging.requirements import Requirement

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = dict(
        re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.M)
    )
    pins = {name.lower().replace("_", "-"): version for name, version in pins.items()}
    for need in map(Requirement, chain(project["dependencies"], *project["optional-dependencies"].values())):
        if need.name != project["name"]:
            assert need.specifier.contains(pins[need.name.lower()]), need
