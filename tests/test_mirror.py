"""The mirror in which a rehearsal trains: it has all that a project needs, and nothing outside it changes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import RECIPE_FOLDER

HELPER = RECIPE_FOLDER / "pai_distributed"
MAKER = HELPER / "mirror.py"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with sources, a large file, links, and data beside it."""
    root = tmp_path / "home" / "work" / "project"
    (root / "package").mkdir(parents=True)
    (root / "train.py").write_text("import package\n")
    (root / "package" / "__init__.py").write_text("")
    (root / ".git").mkdir()
    (root / "data").mkdir()
    (root / "data" / "points.txt").write_text("1 2")
    with open(root / "large.bin", "wb") as file:
        file.truncate(20 * 2**20)
    (root.parent / "datasets").mkdir()
    (root.parent / "datasets" / "a.txt").write_text("a")
    return root


def mirror(folder: Path, *projects: Path, arguments: tuple[str, ...] = (), **environment: str) -> Path:
    """Make a mirror as the launcher does, and return what stands for the root of the file system."""
    folder.mkdir(parents=True)
    result = make_mirror(folder, *projects, arguments=arguments, **environment)
    assert result.returncode == 0, result.stderr
    return folder / "root"


def make_mirror(
    folder: Path, *projects: Path, arguments: tuple[str, ...] = (), **environment: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(MAKER), str(folder), *map(str, projects), "--", *arguments]
    environment = {**os.environ, "PAI_MIRROR": "make", "REHEARSE": "1", **environment}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def enter(root: Path, folder: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a mirror, in what stands for a folder."""
    temporary = root.parent.parent / "temporary"
    temporary.mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, str(MAKER), str(root.parent), "--", *command],
        cwd=within(root, folder),
        env={**os.environ, "PAI_MIRROR": "enter", "TMPDIR": str(temporary), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def files(folder: Path) -> dict[str, bytes | None]:
    """All that is below a folder."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def helper(folder: Path) -> Path:
    """Put into a folder what of the helper makes a process one of a rehearsal, and needs no torch."""
    (folder / "pai_distributed").mkdir()
    for name in ("mirror", "place", "rehearsal", "short", "writes"):
        shutil.copy(HELPER / f"{name}.py", folder / "pai_distributed")
    return folder


def within(root: Path, path: Path) -> Path:
    return Path(f"{root}{path}")


def test_sources_are_copied_what_is_large_is_linked_to_and_what_lies_beside_is_found(
    project: Path, tmp_path: Path
) -> None:
    root = mirror(tmp_path / "scratch", project)
    copy = within(root, project)
    for name in ("train.py", "package/__init__.py", "data/points.txt"):
        assert (copy / name).read_bytes() == (project / name).read_bytes()
        assert (copy / name).resolve() == copy / name
    assert (copy / "large.bin").is_symlink()
    assert (copy / ".git").is_symlink()
    assert (copy / "../datasets/a.txt").read_text() == "a"
    assert (copy / "../../../..").resolve() == within(root, tmp_path.parent)
    assert (root / "dev").is_symlink()


def test_a_link_of_the_project_leads_into_the_mirror(project: Path, tmp_path: Path) -> None:
    (project / "alias").symlink_to("package")
    (project / "whole.py").symlink_to(project / "train.py")
    (project / "outside").symlink_to("../datasets")
    (project / "broken").symlink_to("nowhere")
    (project / "loop").symlink_to("loop")
    os.mkfifo(project / "queue")
    copy = within(mirror(tmp_path / "scratch", project), project)
    for name in ("alias/__init__.py", "whole.py"):
        assert (copy / name).resolve().is_relative_to(copy)
    assert (copy / "outside" / "a.txt").resolve() == project.parent / "datasets" / "a.txt"
    assert (copy / "broken").is_symlink()


def test_a_mirror_in_the_project_is_no_part_of_it(project: Path) -> None:
    folder = project / "PAI_rehearsal.x"
    copy = within(mirror(folder, project), project)
    assert not os.path.lexists(copy / folder.name)
    assert (copy / "train.py").exists()


def test_folders_of_a_home_are_linked_to(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "photos").mkdir(parents=True)
    (home / "train.py").write_text("")
    copy = within(mirror(tmp_path / "scratch", home, HOME=str(home)), home)
    assert (copy / "photos").is_symlink()
    assert not (copy / "train.py").is_symlink()


def test_very_many_files_are_linked_to_by_their_folder(project: Path, tmp_path: Path) -> None:
    (project / "many").mkdir()
    for number in range(5_001):
        (project / "many" / str(number)).touch()
    copy = within(mirror(tmp_path / "scratch", project), project)
    assert (copy / "many").is_symlink()
    assert not (copy / "package").is_symlink()


def test_of_very_many_files_in_one_folder_no_more_are_copied(project: Path, tmp_path: Path) -> None:
    for number in range(5_001):
        (project / f"{number}.txt").touch()
    copy = within(mirror(tmp_path / "scratch", project), project)
    assert sum(path.is_symlink() for path in copy.glob("*.txt")) > 0
    assert not (copy / "train.py").is_symlink()


def test_what_cannot_be_mirrored_is_said(project: Path, tmp_path: Path) -> None:
    """Such as where there is no space, or a folder has too many entries to be linked to one by one."""
    (tmp_path / "scratch").mkdir()
    (project / "data.bin").write_bytes(b"x" * 2**20)
    command = f'ulimit -f 512; exec "{sys.executable}" "$@"'
    result = subprocess.run(
        ["bash", "-c", command, "bash", str(MAKER), str(tmp_path / "scratch"), str(project), "--"],
        env={**os.environ, "PAI_MIRROR": "make", "REHEARSE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert result.stderr.startswith("The rehearsal cannot be prepared: [Errno 27] File too large: ")


def test_any_name_may_be_a_projects(tmp_path: Path) -> None:
    project = tmp_path / "a b\nc\udcff"
    project.mkdir()
    (project / "train.py").write_text("")
    root = mirror(tmp_path / "scratch", project)
    assert not within(root, project / "train.py").is_symlink()
    assert (root.parent / "projects").read_bytes() == os.fsencode(project)


def test_a_folder_that_an_argument_names_is_copied_too(project: Path, tmp_path: Path) -> None:
    out = project.parent / "datasets"
    root = mirror(tmp_path / "scratch", project, arguments=("--lr=1", f"--out={out}", "/dev/null"))
    assert not within(root, out / "a.txt").is_symlink()


_WRITES = """
import os, shutil, sqlite3, sys, tempfile
sys.path.insert(0, sys.argv[1])
from pai_distributed import writes
writes._pai_keep_files(sys.argv[2])
original = sys.argv[3]
open("large.bin", "w").write("new")             # in place of a link
open("linked/deep/new.txt", "w").write("new")   # through a link to a folder
open("linked/old.txt", "a").write(" more")
os.mkdir("linked/folder")
os.remove("linked/gone.txt")
os.rename("linked/moved.txt", "linked/there.txt")
shutil.rmtree("linked/tree")
open("../beside.txt", "a").write(" more")       # beside the project
os.makedirs("../outputs/run", exist_ok=True)
sqlite3.connect("linked/data.db").close()
open(os.devnull, "w").write("x")
tempfile.TemporaryFile().close()
assert open(original + "/linked/old.txt").read() == "old"
for path in (original + "/train.py", "elsewhere/../beside.txt", "huge.bin", "queue"):
    try:
        open(path, "r+")
    except PermissionError as error:
        print(error)
"""


def test_writing_in_the_mirror_never_reaches_what_it_mirrors(project: Path, tmp_path: Path) -> None:
    linked = project / "linked"
    (linked / "deep").mkdir(parents=True)
    (linked / "tree" / "deep").mkdir(parents=True)
    (linked / "tree" / "deep" / "leaf.txt").write_text("leaf")
    for name in ("old", "gone", "moved"):
        (linked / f"{name}.txt").write_text(name)
    (project.parent / "beside.txt").write_text("old")
    (project.parent / "outputs").mkdir()

    (project / "elsewhere").symlink_to(project.parent / "outputs")
    os.mkfifo(project / "queue")
    with open(project / "huge.bin", "wb") as file:
        file.truncate(2**30)
    before = os.stat(project / "huge.bin")
    kept = files(linked)
    root = mirror(tmp_path / "trial", project)
    copy = within(root, project)
    for path in sorted((copy / "linked").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (copy / "linked").rmdir()
    (copy / "linked").symlink_to(linked)  # as where there are very many files
    command = [sys.executable, "-c", _WRITES, str(helper(tmp_path)), str(root.parent), str(project)]
    (tmp_path / "temporary").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    result = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        f"The rehearsal changes nothing outside its folder, and the script writes {project}/train.py",
        f"The rehearsal changes nothing outside its folder, and the script writes {project.parent}/beside.txt",
        f"The rehearsal makes no copy of {project}/huge.bin, to which the script writes",
        f"The rehearsal makes no copy of {project}/queue, to which the script writes",
    ]
    assert files(linked) == kept
    assert os.stat(project / "huge.bin") == before
    assert (project / "large.bin").stat().st_size == 20 * 2**20
    assert (project.parent / "beside.txt").read_text() == "old"
    assert not list((project.parent / "outputs").iterdir())
    assert (copy.parent / "beside.txt").read_text() == "old more"
    assert (copy.parent / "outputs" / "run").is_dir()
    assert (copy / "large.bin").read_text() == "new"
    copied = copy / "linked"
    assert (copied / "deep" / "new.txt").read_text() == "new"
    assert (copied / "old.txt").read_text() == "old more"
    assert sorted(os.listdir(copied)) == ["data.db", "deep", "folder", "old.txt", "there.txt"]


_LOOKS_FOR_A_PLACE = """
import sys, tempfile
sys.path.insert(0, sys.argv[1])
from pai_distributed import writes
tempfile.tempdir = None
writes._pai_keep_files(sys.argv[2])
tempfile.tempdir = None
print(tempfile.gettempdir())
"""


def test_a_process_may_look_for_a_place_of_temporary_files(project: Path, tmp_path: Path) -> None:
    """It writes there while it holds a lock."""
    root = mirror(tmp_path / "trial", project)
    command = [sys.executable, "-c", _LOOKS_FOR_A_PLACE, str(helper(tmp_path)), str(root.parent)]
    assert subprocess.run(command, cwd=within(root, project), timeout=60, check=False).returncode == 0


_TELLS = """
import os, sys
import pai_distributed.rehearsal
import module
print(module.__file__, *sys.argv[1:], os.environ["HOME"], os.environ["X_CACHE"], sep="\\n")
"""


def test_what_a_process_is_told_leads_into_the_mirror(project: Path, tmp_path: Path) -> None:
    """A project installed for development is imported from there, and folders that arguments name are those there."""
    (project / "src").mkdir()
    (project / "src" / "module.py").write_text("")
    (project / "tell.py").write_text(_TELLS)
    helper(project)
    out, home = tmp_path / "out", tmp_path / "home"
    arguments = ("--lr=0.1", f"--out={out}", str(out / "deep" / "er"), "/dev/null", "/no/such/place", "out")
    root = mirror(tmp_path / "trial", project, arguments=arguments)
    told = enter(
        root,
        project,
        sys.executable, str(project / "tell.py"), *arguments,
        PYTHONPATH=str(project / "src"), HOME=str(home), X_CACHE=str(out),
    ).stdout.splitlines()  # fmt: skip
    assert told == [
        str(within(root, project / "src" / "module.py")),
        "--lr=0.1",
        f"--out={within(root, out)}",
        str(out / "deep" / "er"),  # there is no such place
        "/dev/null",
        "/no/such/place",
        "out",
        str(within(root, home)),
        str(within(root, out)),
    ]


_LOGS = """
import pai_distributed.rehearsal
import mlflow
import wandb
wandb.init(project="x", mode="online")
mlflow.set_tracking_uri("http://server")
"""


def test_loggers_that_leave_the_machine_are_silent_whatever_the_script_says(project: Path, tmp_path: Path) -> None:
    (project / "wandb.py").write_text("def init(**settings): print(settings['mode'])")
    (project / "mlflow.py").write_text("def set_tracking_uri(uri): print(uri)")
    (project / "log.py").write_text(_LOGS)
    helper(project)
    root = mirror(tmp_path / "trial", project)
    told = enter(root, project, sys.executable, "log.py").stdout.splitlines()
    assert told == [f"file://{root.parent}/mlruns", "disabled"]


# ---- kept by the system

KEPT = subprocess.run(
    [sys.executable, "-c", "import mirror; raise SystemExit(mirror._pai_landlock(444, None, 0, 1) <= 0)"],
    cwd=HELPER, check=False,
).returncode == 0  # fmt: skip

_PROGRAM = """
echo new > new.txt && echo new > "$TMPDIR/new.txt" && echo new > "$HOME/new.txt" || exit 7
mkdir made && mv new.txt made && rm made/new.txt || exit 8
echo more >> large.bin
rm -rf data/* linked/*
mkdir linked/folder
ln -s x "$0/link"
mv large.bin "$0/moved.bin"
truncate -s 0 "$0/large.bin"
echo new > "$0/train.py"
echo new > "$0/new.txt"
"""


@pytest.mark.skipif(not KEPT, reason="this system has no Landlock")
def test_no_program_in_a_mirror_changes_what_it_mirrors(project: Path, tmp_path: Path) -> None:
    (project / "linked").mkdir()
    for number in range(5_001):
        (project / "linked" / str(number)).touch()
    before = files(project)
    root = mirror(tmp_path / "trial", project)
    result = enter(root, project, "sh", "-c", _PROGRAM, f"{project}//", HOME=str(project.parent))
    assert result.returncode not in (7, 8), result.stderr
    assert "denied" in result.stderr
    assert files(project) == before
    assert not (within(root, project) / "data" / "points.txt").exists()  # what was copied is the rehearsal's own
    assert not (project.parent / "new.txt").exists()


_SAVES = """
import os
import pai_distributed.rehearsal
import safetensors.torch
import torch
torch.save([1], "large.bin")
torch.save([1], os.path.join("linked", "model.pt"))
safetensors.torch.save_file({"x": torch.ones(1)}, "large.safetensors")
assert torch.load("large.bin") == torch.load("linked/model.pt") == [1]
"""


@pytest.mark.real
def test_what_torch_writes_by_compiled_code_is_seen_as_well(project: Path, tmp_path: Path) -> None:
    (project / "linked").mkdir()
    for number in range(5_001):
        (project / "linked" / str(number)).touch()
    (project / "linked" / "model.pt").write_text("old")
    shutil.copy(project / "large.bin", project / "large.safetensors")
    (project / "save.py").write_text(_SAVES)
    helper(project)
    before = files(project)
    root = mirror(tmp_path / "trial", project)
    environment = {**os.environ, "PAI_REHEARSAL": str(root.parent)}  # without what the system would keep
    command = [sys.executable, "save.py"]
    result = subprocess.run(
        command, cwd=within(root, project), env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert files(project) == before
