# SPDX-License-Identifier: Apache-2.0
"""The stubs say what is there, and all of it."""

import ast
import pathlib
import subprocess
import sys

import pytest

import ringload
from ringload import _core

package = pathlib.Path(ringload.__file__).parent


def public(names):
    return {name for name in names if not name.startswith("_")}


@pytest.mark.parametrize(("file", "module"), [("__init__.pyi", ringload), ("_core.pyi", _core)])
def test_stub_has_the_names_of_its_module_and_classes(file, module):
    tree = ast.parse((package / file).read_text())
    assert (package / "py.typed").exists()
    definitions = [node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
    stubbed = {node.name for node in definitions}
    if module is ringload:
        assert public(stubbed) | {"Group", "Model", "Selection", "Tensor"} == set(ringload.__all__)
    for node in definitions:
        if node.name.startswith("_"):
            continue
        assert hasattr(module, node.name), node.name
        if not isinstance(node, ast.ClassDef) or issubclass(getattr(module, node.name), Exception):
            continue
        inside = {part.name for part in node.body if hasattr(part, "name")}
        there = getattr(module, node.name)
        assert all(hasattr(there, name) or name == "__buffer__" for name in inside), node.name
        fields = {part.target.id for part in node.body if isinstance(part, ast.AnnAssign)}
        own = public(vars(there)) - {"count", "index"}
        inherited = {"get", "items", "keys", "values"} if node.name == "Checkpoint" else set()
        assert own <= inside | fields | inherited, node.name


typed = """
import ringload

model = ringload.load("x", route="direct", progress=True)
found: ringload.Tensor | None = model.get("a")
other: ringload.Tensor | int = model.get("a", 3)
ringload.load("x", rout="direct")  # wrong
ringload.load("x", route="scenic")  # wrong
ringload.fill("x", {}, misssing="error")  # wrong
ringload.save("x", model, shard_byte=3)  # wrong
ringload.save("x", model, shard_bytes="3GB", metadata={"a": "b"})
needed: ringload.Tensor = model.get("a")  # wrong
ringload.open("x", independent_files=True)
with ringload.Loader(slot_bytes="4MiB") as loader:
    loader.stream("x", window="2GiB", allocation="per_tensor")
    loader.start("x", windw="2GiB")  # wrong
    loader.load("x", memory="mapped", verify="require")
ringload.features()["remote"]
"""


def test_options_are_typed(tmp_path):
    pytest.importorskip("mypy", reason="no mypy")
    program = tmp_path / "program.py"
    program.write_text(typed)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache")]
    told = subprocess.run([*command, str(program)], capture_output=True, text=True, cwd=tmp_path)
    wrong = {
        int(line.split(":")[1]) for line in told.stdout.splitlines() if "program.py:" in line
        and "error:" in line
    }
    lines = typed.splitlines()
    assert wrong == {n for n, line in enumerate(lines, 1) if "# wrong" in line}, told.stdout


def test_public_names_are_documented():
    for name in ringload.__all__:
        assert getattr(ringload, name).__doc__, name
