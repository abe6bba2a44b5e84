"""Examples on the pages work as shown: docstrings, docs/python.md, and the notebook."""

import ast
import contextlib
import doctest
import inspect
import io
import json
import os
import re
import subprocess
import sys

import pantile
import pytest
from conftest import ROOT

FLAGS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL


def documented():
    """Every object of the package with a docstring, by its name."""
    for name in ["__doc__", *pantile.__all__]:
        thing = pantile if name == "__doc__" else getattr(pantile, name)
        yield name, thing
        if inspect.isclass(thing):
            yield from ((f"{name}.{member}", value) for member, value in vars(thing).items())


@pytest.mark.parametrize(
    ("name", "text"),
    [(name, text) for name, thing in documented() if ">>>" in (text := inspect.getdoc(thing) or "")],
)
def test_docstrings_work(name, text):
    names = {"pantile": pantile, **{name: getattr(pantile, name) for name in pantile.__all__}}
    test = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    assert doctest.DocTestRunner(optionflags=FLAGS).run(test).failed == 0


def test_everything_public_is_documented():
    for name in pantile.__all__:
        thing = getattr(pantile, name)
        assert inspect.getdoc(thing), name
        for member, value in vars(thing).items() if inspect.isclass(thing) else []:
            if not member.startswith("_"):
                assert inspect.getdoc(value), f"{name}.{member}"


@pytest.mark.parametrize("page", ["python", "learn-programs"])
def test_the_page_works(tmp_path, page):
    page = (ROOT / f"docs/{page}.md").read_text()
    programs = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL)
    assert len(programs) >= 2
    for program, output in programs:
        done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
        assert done.stdout == output, done.stdout + done.stderr


def shown(value):
    """The text that a notebook shows for a value: by type, in lines."""
    data = {"text/plain": repr(value)}
    for kind, method in [("image/svg+xml", "_repr_svg_"), ("text/html", "_repr_html_")]:
        if hasattr(value, method):
            data[kind] = getattr(value, method)()
    return {kind: text.splitlines(keepends=True) for kind, text in data.items()}


def run_cell(source, names):
    """The outputs of a cell, as a notebook's file has them."""
    tree = ast.parse(source)
    value = None
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        tail = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "cell", "exec"), names)
        if tail is not None:
            value = eval(compile(ast.Expression(tail.value), "cell", "eval"), names)
    outputs = []
    if said.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": said.getvalue().splitlines(keepends=True)})
    if value is not None:
        outputs.append({"data": shown(value), "metadata": {}, "output_type": "execute_result"})
    return outputs


def test_the_notebook_works():
    """Run again, every cell gives what the file has; ``PANTILE_BLESS=1`` writes it again."""
    path = ROOT / "bindings/python/examples/which-code.ipynb"
    notebook = json.loads(path.read_text())
    names, count = {}, 0
    bless = bool(os.environ.get("PANTILE_BLESS"))
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        count += 1
        outputs = run_cell("".join(cell["source"]), names)
        for output in outputs:
            if output["output_type"] == "execute_result":
                output["execution_count"] = count
        if bless:
            cell["outputs"], cell["execution_count"] = outputs, count
        assert cell["outputs"] == outputs, "".join(cell["source"])
    if bless:
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    kinds = [kind for cell in notebook["cells"] for output in cell.get("outputs", []) for kind in output.get("data", {})]
    assert "image/svg+xml" in kinds and "text/html" in kinds


def test_the_stubs_say_what_is_there(tmp_path):
    done = subprocess.run([sys.executable, "-m", "mypy.stubtest", "pantile", "--ignore-missing-stub",
                           "--ignore-disjoint-bases"],
                          cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
