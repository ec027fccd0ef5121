"""The folders that a file adds to Python's path, in the ways in which scripts say where they are."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from retrofit.paths import added_folders, leaves_out

FOUND = {
    "sys.path.append('lib')": "a/b/lib",
    "sys.path.insert(0, '..')": "a",
    "sys.path.append(os.path.dirname(__file__))": "a/b",
    "sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))": "a",
    "sys.path.append(dirname(dirname(dirname(realpath(__file__)))))": "",
    "sys.path.append(os.path.join(os.path.dirname(__file__), '..', 'src'))": "a/src",
    "sys.path.append(os.path.abspath(os.path.join(os.path.dirname(os.path.dirname(__file__)), 'src')))": "a/src",
    "sys.path.append(os.path.dirname(__file__) + '/../src')": "a/src",
    "sys.path.append(f'{os.path.dirname(__file__)}/lib')": "a/b/lib",
    "sys.path.append(os.path.split(os.path.realpath(__file__))[0])": "a/b",
    "sys.path.insert(0, str(Path(__file__).parent))": "a/b",
    "sys.path.insert(0, str(Path(__file__).resolve().parent.parent))": "a",
    "sys.path.insert(0, str(Path(__file__).resolve().parents[1]))": "a",
    "sys.path.append(str(pathlib.Path(__file__).absolute().parents[1] / 'src'))": "a/src",
    "sys.path.append(Path(__file__).parents[1].joinpath('src').as_posix())": "a/src",
    "sys.path.append(str(Path(os.path.dirname(__file__), 'lib')))": "a/b/lib",
    "sys.path.append(os.getcwd())": "a/b",
    "sys.path.extend([os.path.dirname(__file__)])": "a/b",
    "sys.path += [str(Path(__file__).parents[1])]": "a",
    "site.addsitedir('lib')": "a/b/lib",
    "HERE = os.path.dirname(os.path.abspath(__file__))\nROOT = os.path.dirname(HERE)\nsys.path.append(ROOT)": "a",
    "FILE = Path(__file__)\nROOT: Path = FILE.parents[1]\nif ROOT:\n    sys.path.append(str(ROOT))": "a",
    "def add(path):\n    sys.path.insert(0, path)\nlib = join(dirname(__file__), 'lib')\nadd(lib)": "a/b/lib",
    "sys.path.append(os.path.join(here, '..', 'src'))": "a/src",
    "sys.path.append(os.path.join(settings.here, '../..'))": "",
    "for name in ['lib']:\n    sys.path.append(name)": "a/b/lib",
}


def added(folder: Path, text: str) -> list[str]:
    for name in ("a/b/lib", "a/src"):
        (folder / name).mkdir(parents=True)
    found = added_folders(folder / "a" / "b" / "train.py", ast.parse(text))
    return [one.relative_to(folder).as_posix().removeprefix(".") for one in found]


@pytest.mark.parametrize("text", FOUND)
def test_a_folder_is_worked_out(tmp_path: Path, text: str) -> None:
    assert added(tmp_path, text) == [FOUND[text]]


@pytest.mark.parametrize(
    "text",
    [
        "sys.path.append('/usr')",
        "sys.path.append('nowhere')",
        "sys.path.append(os.environ['LIB'])",
        "sys.path.append(str(Path(__file__).parents[99999]))",
        "sys.path.append(str(Path(__file__).parents[n]))",
        "sys.path.append(where)",
        "where = where\nsys.path.append(where)",
        "paths.append('lib')",
        "sys.path.append(find('lib'))",
        "sys.path.append(os.path.join(root, 'lib'))",
        "sys.path.append(os.path.join('/usr', '..', 'usr'))",
        "sys.path.append()",
        "# sys.path.append('lib')",
    ],
)
def test_what_cannot_be_told_is_no_folder(tmp_path: Path, text: str) -> None:
    assert added(tmp_path, text) == []


def test_names_that_are_each_made_of_two_others_keep_nobody_waiting(tmp_path: Path) -> None:
    names = "".join(f"n{number} = n{number - 1} + n{number - 1}\n" for number in range(1, 60))
    assert added(tmp_path, f"n0 = 'l'\n{names}sys.path.append(n59)") == []


#: What may take the script's own folder off the path.
LEFT_OUT = [
    "sys.path[0] = '..'",
    "sys.path[0] = root",
    "sys.path[0:1] = ['..']",
    "sys.path = ['..']",
    "sys.path = ['..'] + sys.path[1:]",
    "del sys.path[0]",
    "sys.path.pop(0)\nsys.path.insert(0, '..')",
    "sys.path.remove(sys.path[0])",
    "sys.path.remove(os.path.dirname(os.path.abspath(__file__)))",
    "sys.path[:] = [str(Path(__file__).parent), '..']",  # perhaps that folder
    "sys.path.clear()",
]
LEFT_IN = [
    "sys.path = ['..'] + sys.path",
    "sys.path = ['..', *sys.path]",
    "sys.path = [*dict.fromkeys(sys.path)]",
    "sys.path = before",
    "sys.path[0:0] = ['..']",
    "sys.path[1:] = ['..']",
    "sys.path.pop()",
    "sys.path.remove('/opt/ros/lib')",
    "path[0] = '..'",
    "print(sys.path[0])",
]


@pytest.mark.parametrize("text", LEFT_OUT + LEFT_IN)
def test_it_is_told_whether_the_scripts_own_folder_stays(text: str) -> None:
    assert leaves_out(ast.parse(text)) == (text in LEFT_OUT)
