"""Jobs of batch systems: what `retrofit launch` writes, run with small programs in place of SLURM's."""

from __future__ import annotations

import json
import os
import re
import runpy
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from retrofit.launch import SUBMITTING, SYSTEMS
from tests.conftest import SCRIPT, Folder
from tests.launching import DEADLINE, HELPER, runs, until
from tests.test_launch import shellcheck

find_place: Any = runpy.run_path(str(HELPER / "nodes" / "place.py"))["find_place"]

#: Stands for srun: says how it was called, and waits where the test asks for it.
SRUN = """#!{python}
import json, os, signal, sys, time
told = dict(argv=sys.argv[1:], gpus=os.environ.get("NUM_GPUS"), cpus=os.environ.get("SRUN_CPUS_PER_TASK"))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
with open("srun.json", "w") as file:
    json.dump(told | dict(pid=os.getpid()), file)
os.rename("srun.json", "srun")
while os.environ.get("WAITS"):
    time.sleep(0.01)  # a signal that comes just before pause() would not be seen
sys.exit(int(os.environ.get("STATUS", "0")))
"""
SCANCEL = '#!/bin/sh\necho "scancel $*" >> deeds\nkill -TERM "$(sed "s/.*pid.: //; s/}.*//" srun)"\n'
SCONTROL = """#!/bin/sh
case $1 in
    show) if [ "$2" = job ]; then echo "   Command=$COMMAND"; else echo node7; fi ;;
    requeue) echo "scontrol $*" >> deeds; exit 1 ;;
esac
"""


@pytest.fixture
def project(folder: Folder, tmp_path: Path) -> Folder:
    """A rewritten script, and the programs of SLURM."""
    folder.write("train.py", SCRIPT)
    assert folder.run("apply", "train.py").code == 0
    programs = {"srun": SRUN.replace("{python}", sys.executable), "scancel": SCANCEL, "scontrol": SCONTROL}
    for name, text in programs.items():
        path = tmp_path / "slurm" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    if other := os.environ.get("TEST_BASH"):  # as in launching.py
        (tmp_path / "slurm" / "bash").symlink_to(other)
    return folder


def start(
    project: Folder, *arguments: str, job: str = "train_distributed.sbatch", **env: str
) -> subprocess.Popen[bytes]:
    """Run the job as SLURM does: a copy of it, in the folder it was submitted from."""
    copy = project.path / "slurm_script"
    copy.write_bytes((project.path / job).read_bytes())
    slurm = {"SLURM_JOB_ID": "12345", "SLURM_JOB_NAME": "train", "SLURM_SUBMIT_DIR": "/nowhere"}
    slurm |= {"SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_NODELIST": "node[7-8]", "SLURM_CPUS_PER_TASK": "8"}
    slurm |= {"PATH": os.pathsep.join([str(project.path.parent / "slurm"), "/usr/bin", "/bin"])}
    slurm |= {"COMMAND": " ".join([f"{project.path}/{job}", *arguments])}
    return subprocess.Popen(
        ["bash", str(copy), *arguments], cwd=project.path, env=slurm | env, stdout=subprocess.DEVNULL
    )


def deeds(project: Folder) -> list[str]:
    path = project.path / "deeds"
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ((), ["--nodes=1", "--gpus-per-node=1", "--cpus-per-task=4"]),
        (("--nproc-per-node", "4"), ["--nodes=1", "--gpus-per-node=4", "--cpus-per-task=16"]),
        (("--nodes", "3", "--nproc-per-node", "1"), ["--nodes=3", "--gpus-per-node=1", "--cpus-per-task=4"]),
        (("--nodes", "2", "--nproc-per-node", "4"), ["--nodes=2", "--gpus-per-node=4", "--cpus-per-task=16"]),
    ],
)
def test_a_job_starts_the_launcher_once_on_each_node(
    project: Folder, tmp_path: Path, options: tuple[str, ...], lines: list[str]
) -> None:
    answer = project.run("launch", *options, "train.py")
    assert (answer.code, answer.err) == (0, "")
    assert "train with: sbatch train_distributed.sbatch [arguments of train.py]" in answer.out
    text = (project.path / "train_distributed.sbatch").read_text()
    directives = [line.split()[1] for line in text.splitlines() if line.startswith("#SBATCH")]
    assert set(lines) <= set(directives)
    assert {"--ntasks-per-node=1", "--requeue", "--signal=B:USR1@120"} <= set(directives)
    assert shellcheck(tmp_path, text) == ""
    job = start(project, "--lr", "1")
    assert job.wait(DEADLINE) == 0
    told = json.loads((project.path / "srun").read_text())
    assert told["argv"] == ["bash", str(project.path / "train_distributed.sh"), "--lr", "1"]
    assert told["gpus"] == (options[-1] if "--nproc-per-node" in options else None)
    assert told["cpus"] == "8"
    assert not deeds(project)


def test_a_job_near_its_end_stops_the_training_and_goes_back_into_the_queue(project: Folder) -> None:
    project.run("launch", "train.py")
    job = start(project, WAITS="yes")
    until(lambda: (project.path / "srun").exists(), "it trains")
    job.send_signal(signal.SIGUSR1)
    assert job.wait(DEADLINE) == 143
    assert deeds(project) == ["scancel --signal=TERM 12345", "scontrol requeue 12345"]


@pytest.mark.parametrize(("status", "requeued"), [(0, False), (1, False), (75, True), (143, False)])
def test_a_job_goes_back_into_the_queue_for_another_round_only(project: Folder, status: int, requeued: bool) -> None:
    project.run("launch", "train.py")
    assert start(project, STATUS=str(status)).wait(DEADLINE) == status
    assert deeds(project) == ["scontrol requeue 12345"] * requeued


def test_the_task_of_an_array_that_has_the_number_of_the_whole_is_one_task(project: Folder) -> None:
    project.run("launch", "train.py")
    scontrol = project.path.parent / "slurm" / "scontrol"
    scontrol.write_text(SCONTROL.replace("then echo", 'then [ "$3" = 12345_4 ] || echo "   Command=$COMMAND"; echo'))
    job = start(project, STATUS="75", SLURM_ARRAY_JOB_ID="12345", SLURM_ARRAY_TASK_ID="4")
    assert job.wait(DEADLINE) == 75
    assert json.loads((project.path / "srun").read_text())["argv"][1] == str(project.path / "train_distributed.sh")
    assert deeds(project) == ["scontrol requeue 12345_4"]


def test_a_script_without_rounds_is_started_by_torchrun(project: Folder, tmp_path: Path) -> None:
    project.write("it's.py", SCRIPT)
    assert project.run("launch", "--nodes", "2", "it's.py").code == 0
    text = (project.path / "it's.sbatch").read_text()
    assert "round" not in text
    assert shellcheck(tmp_path, text) == ""
    assert start(project, "--lr", "1", job="it's.sbatch").wait(DEADLINE) == 0
    argv = json.loads((project.path / "srun").read_text())["argv"]
    assert argv[:3] == ["torchrun", "--nnodes=2", "--nproc_per_node=gpu"]
    assert "--rdzv_endpoint=node7:22345" in argv
    assert argv[-3:] == [str(project.path / "it's.py"), "--lr", "1"]


def test_a_file_of_somebody_else_is_kept(project: Folder) -> None:
    project.write("train_distributed.sbatch", "#!/bin/bash\n")
    answer = project.run("launch", "train.py")
    assert answer.code == 2
    assert "train_distributed.sbatch:" in answer.err
    assert "RF008" in answer.err
    assert project.run("launch", "--force", "train.py").code == 0


def test_a_job_is_written_again_by_other_options_and_taken_back(project: Folder) -> None:
    before = project.contents()
    project.run("launch", "train.py")
    first = project.contents()
    assert "nothing to do" in project.run("launch", "train.py").out
    project.run("launch", "--nodes", "2", "train.py")
    project.run("undo", "--steps", "1", "train.py")
    assert project.contents() == first
    project.run("undo", "--steps", "1", "train.py")
    assert project.contents() == before


def test_a_dry_run_prints_the_job(project: Folder) -> None:
    before = project.contents()
    assert project.run("launch", "--dry-run", "train.py").out.startswith("#!/usr/bin/env bash\n")
    assert project.contents() == before


def test_apply_writes_the_job_as_well(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    answer = folder.run("apply", "--launcher", "slurm", "--nodes", "2", "--nproc-per-node", "4", "train.py")
    assert answer.code == 0
    assert "train with: sbatch train_distributed.sbatch [arguments of train.py]" in answer.out
    text = (folder.path / "train_distributed.sbatch").read_text()
    assert "#SBATCH --nodes=2\n" in text
    assert "LAUNCHER=${LAUNCHER:-torchrun}" in (folder.path / "train_distributed.sh").read_text()
    assert "nothing to do" in folder.run("launch", "--nodes", "2", "--nproc-per-node", "4", "train.py").out


def test_launch_is_for_batch_systems(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    answer = folder.run("launch", "--launcher", "torchrun", "train.py")
    assert (answer.code, "no batch system; give slurm or submitit or trainjob or skypilot" in answer.err) == (2, True)


def test_a_job_needs_a_script(folder: Folder) -> None:
    answer = folder.run("launch", "train.py")
    assert (answer.code, "RF001" in answer.err) == (2, True)


SCHEMAS = Path(__file__).parent / "schemas"


def job_of(project: Folder, system: str, *options: str) -> Any:
    """Write the job of a system, and return what it says."""
    answer = project.run("launch", "--launcher", system, *options, "train.py")
    assert (answer.code, answer.err) == (0, "")
    text = (project.path / f"train_distributed{SYSTEMS[system]}").read_text()
    assert SUBMITTING[system] in text
    return yaml.safe_load(text)


def unknown(part: Any, schema: dict[str, Any]) -> list[str]:
    """Return the keys that a schema does not know: Kubernetes drops them without a word."""
    if isinstance(part, list):
        return [key for one in part for key in unknown(one, schema.get("items", {}))]
    known = schema.get("properties", {})
    if not isinstance(part, dict) or not known:
        return []
    return [key for key, one in part.items() for key in ([key] if key not in known else unknown(one, known[key]))]


def run_as(project: Folder, command: str, **env: str) -> dict[str, Any]:
    """Run what a container runs, with a launcher that only says how it is started."""
    (project.path / "train_distributed.sh").write_text('printf "%s\\n" "$PWD" "$@" > called\nenv > known\n')
    told = {"PATH": os.environ["PATH"], **env}
    subprocess.run(["bash", "-c", command], cwd=project.path, env=told, check=True)
    where = next(iter(project.path.parent.rglob("known")))
    return dict(line.split("=", 1) for line in where.read_text().splitlines() if "=" in line)


def test_a_trainjob_is_one_of_its_published_schema(project: Folder) -> None:
    job = job_of(project, "trainjob", "--nodes", "2", "--nproc-per-node", "4")
    schema = json.loads((SCHEMAS / "trainjob-v1alpha1.json").read_text())
    jsonschema.validate(job, schema)
    assert unknown(job, schema) == []
    assert unknown({"spec": {"trainers": 1}}, schema) == ["trainers"]
    assert "failurepolicy" not in json.dumps(schema["properties"]["spec"]).lower()  # it is the runtime's, below
    assert set(job["spec"]) == {"runtimeRef", "trainer", "runtimePatches"}
    trainer = job["spec"]["trainer"]
    assert (trainer["numNodes"], trainer["numProcPerNode"]) == (2, 4)
    assert trainer["command"] == ["bash", "-c"]
    (command,) = trainer["args"]
    # What the operator sets, as its source says (pkg/constants): the launcher takes the nodes from it.
    of_torchrun = {
        "PET_NNODES": "2",
        "PET_NPROC_PER_NODE": "4",
        "PET_NODE_RANK": "1",
        "PET_MASTER_ADDR": "t-node-0-0.t",
    }
    known = run_as(project, command.replace("/volume/project", "."), **of_torchrun, PET_MASTER_PORT="29400")
    assert find_place(known) == (1, 2, "t-node-0-0.t", 29400, 2)
    assert known["NUM_GPUS"] == "4"


def test_the_runtime_of_a_trainjob_says_what_becomes_of_each_status(project: Folder) -> None:
    job = job_of(project, "trainjob", "--nodes", "2")
    runtime = yaml.safe_load(project.text("train_distributed.runtime.yaml"))
    schema = json.loads((SCHEMAS / "trainingruntime-v1alpha1.json").read_text())
    jsonschema.validate(runtime, schema)
    assert unknown(runtime, schema) == []
    assert job["spec"]["runtimeRef"] == {"kind": runtime["kind"], "name": runtime["metadata"]["name"]}
    jobset = runtime["spec"]["template"]["spec"]
    (again,) = jobset["failurePolicy"]["rules"]
    assert (again["action"], jobset["failurePolicy"]["maxRestarts"]) == ("RestartJobSetAndIgnoreMaxRestarts", 3)
    # No schema says what names JobSet's webhook takes (pkg/webhooks/jobset_webhook.go).
    assert re.fullmatch("[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", again["name"])
    (node,) = jobset["replicatedJobs"]
    patched = job["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"][0]
    assert node["name"] == patched["name"]
    spec = node["template"]["spec"]
    disrupted, unfinished = spec["podFailurePolicy"]["rules"]
    assert (disrupted["action"], disrupted["onPodConditions"][0]["type"]) == ("Ignore", "DisruptionTarget")
    assert (unfinished["action"], unfinished["onExitCodes"]["values"]) == ("FailJob", [75])
    assert again["onJobFailureReasons"] == ["PodFailurePolicy"]  # which that is
    pod = spec["template"]["spec"]
    assert pod["restartPolicy"] == "Never"  # else Kubernetes refuses the policy
    assert [one["name"] for one in pod["containers"]] == [unfinished["onExitCodes"]["containerName"]]
    assert spec["backoffLimit"] == 0


def test_a_runtime_is_written_with_its_trainjob_and_taken_back(project: Folder) -> None:
    before = project.contents()
    said = project.run("launch", "--launcher", "trainjob", "train.py").out
    assert "wrote train_distributed.trainjob.yaml and train_distributed.runtime.yaml" in said
    assert "train with: kubectl create -f train_distributed.trainjob.yaml" in said
    assert "nothing to do" in project.run("launch", "--launcher", "trainjob", "train.py").out
    shown = project.run("launch", "--launcher", "trainjob", "--dry-run", "--nodes", "2", "train.py").out
    assert [one["kind"] for one in yaml.safe_load_all(shown)] == ["TrainJob", "TrainingRuntime"]
    (project.path / "train_distributed.runtime.yaml").write_text("kind: Mine\n")
    assert "train_distributed.runtime.yaml:" in project.run("launch", "--launcher", "trainjob", "train.py").err
    (project.path / "train_distributed.runtime.yaml").unlink()
    assert project.run("undo", "--steps", "1", "train.py").code == 0
    assert project.contents() == before


def test_a_task_of_skypilot_is_one_of_its_published_schemas(project: Folder) -> None:
    job = job_of(project, "skypilot", "--nodes", "2", "--nproc-per-node", "4")
    schemas = json.loads((SCHEMAS / "skypilot-0.14.1.json").read_text())
    jsonschema.validate(job, schemas["task"])
    jsonschema.validate(job["resources"], schemas["resources"])
    for mount in job["file_mounts"].values():
        jsonschema.validate(mount, schemas["storage"])
    assert job["resources"]["job_recovery"]["recover_on_exit_codes"] == [75]
    known = run_as(
        project,
        job["run"].replace("/checkpoints", "bucket"),
        SKYPILOT_NUM_NODES="2",
        SKYPILOT_NODE_RANK="1",
        SKYPILOT_NODE_IPS="10.0.0.1\n10.0.0.2",
        SKYPILOT_NUM_GPUS_PER_NODE="4",
    )
    assert known["PWD"].endswith("bucket/train")
    assert known["NUM_GPUS"] == "4"
    assert find_place(known) == (1, 2, "10.0.0.1", 29500, 2)


@pytest.mark.parametrize("system", ["trainjob", "skypilot"])
def test_a_cluster_starts_a_script_without_rounds_by_torchrun(project: Folder, system: str) -> None:
    project.write("it's.py", SCRIPT)
    answer = project.run("launch", "--launcher", system, "--nodes", "2", "--nproc-per-node", "4", "it's.py")
    assert (answer.code, answer.err) == (0, "")
    text = project.text(f"it's{SYSTEMS[system]}")
    assert not re.search("round|newest checkpoint|recover_on|train_distributed", text)
    job = yaml.safe_load(text)
    name = "trainjob-v1alpha1" if system == "trainjob" else "skypilot-0.14.1"
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    jsonschema.validate(job, schema if system == "trainjob" else schema["task"])
    command = job["spec"]["trainer"]["args"][0] if system == "trainjob" else job["run"]
    torchrun = project.path.parent / "slurm" / "torchrun"
    torchrun.symlink_to("srun")
    of_skypilot = {"SKYPILOT_NUM_NODES": "2", "SKYPILOT_NODE_RANK": "1", "SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2"}
    told = {"PATH": f"{torchrun.parent}:/usr/bin:/bin", "SKYPILOT_NUM_GPUS_PER_NODE": "4", **of_skypilot}
    command = command.replace("/volume/project", ".").replace("/checkpoints", "bucket")
    subprocess.run(["bash", "-c", command], cwd=project.path, env=told, check=True)
    (called,) = (path for path in project.path.rglob("srun"))
    *options, script = json.loads(called.read_text())["argv"]
    assert Path(project.path, script).resolve() == (project.path / "it's.py").resolve()
    where = ["--nnodes=2", "--node_rank=1", "--master_addr=10.0.0.1", "--master_port=29500", "--nproc_per_node=4"]
    assert options == ([] if system == "trainjob" else where)  # PET_* says it there


@pytest.mark.parametrize("name", ["_Train_2.py", "1.py", "été.py"])
def test_a_job_has_a_name_that_kubernetes_takes(folder: Folder, name: str) -> None:
    folder.write(name, SCRIPT)
    job = yaml.safe_load(folder.run("launch", "--launcher", "trainjob", "--dry-run", name).out)
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]*-", job["metadata"]["generateName"])


@pytest.mark.parametrize("system", sorted(SYSTEMS))
def test_a_name_with_a_line_in_it_writes_no_job(folder: Folder, system: str) -> None:
    folder.write("a\nrm x\n.py", SCRIPT)
    answer = folder.run("launch", "--launcher", system, "a\nrm x\n.py")
    assert (answer.code, "RF006" in answer.err) == (2, True)


#: Stands for sbatch, and for the srun of its job: the job runs here, as one task, and its status is noted.
SBATCH = """#!{python}
import subprocess, sys
output = open("output", "w")
somewhere = dict(start_new_session=True, stdout=output, stderr=output)
subprocess.Popen(["bash", "-c", 'bash "$0"; echo $? > status', sys.argv[1]], **somewhere)
print("Submitted batch job 12345")
"""
SRUN_OF_A_JOB = """#!{python}
import os, sys
os.setpgrp()
with open("task", "w") as file:
    file.write(str(os.getpid()))
os.execv(sys.executable, sys.argv[sys.argv.index(sys.executable):])
"""


@pytest.fixture
def submitting(project: Folder) -> Folder:
    """A project on a SLURM that submitit takes for one, and a torchrun that says how it is called."""
    slurm = project.path.parent / "slurm"
    (slurm / "srun").rename(slurm / "torchrun")
    for name, text in {"sbatch": SBATCH, "srun": SRUN_OF_A_JOB}.items():
        (slurm / name).write_text(text.replace("{python}", sys.executable))
        (slurm / name).chmod(0o755)
    (slurm / "scontrol").write_text(SCONTROL.replace("exit 1", "exit 0"))
    return project


def write_job(project: Folder, *options: str) -> str:
    """Write the job, and a launcher in place of its own that says how it is called; what the first says."""
    answer = project.run("launch", "--launcher", "submitit", *options, "train.py")
    assert (answer.code, answer.err) == (0, "")
    project.write("train_distributed.sh", f'exec "{project.path.parent}/slurm/torchrun" "$@"\n')
    return answer.out


def submit(project: Folder, job: str, *arguments: str, **env: str) -> None:
    """Run what submits a job."""
    slurm = {"SLURM_JOB_ID": "12345", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_NODELIST": "node[7-8]"}
    slurm |= {"PATH": os.pathsep.join([str(project.path.parent / "slurm"), "/usr/bin", "/bin"])}
    command = [sys.executable, job, *arguments]
    said = subprocess.run(command, cwd=project.path, env=slurm | env, capture_output=True, text=True, check=False)
    assert "Submitted job 12345; its output will be" in said.stdout, said.stderr


def status(project: Folder) -> int:
    """With what the job ends."""
    path = project.path / "status"
    until(lambda: path.exists() and path.read_text(), "the job ends")
    return int(path.read_text())


def submitted(project: Folder) -> Any:
    """What submitit runs where the job begins, or begins again."""
    import submitit

    (path,) = project.path.glob("submitit/12345_submitted.pkl")
    return submitit.helpers.DelayedSubmission.load(path)


def test_submitit_starts_the_launcher_once_on_each_node(submitting: Folder) -> None:
    said = write_job(submitting, "--nodes", "2", "--nproc-per-node", "4")
    assert "train with: python train_distributed.submit.py [arguments of train.py]" in said
    submit(submitting, "train_distributed.submit.py", "--lr", "1")
    assert status(submitting) == 0
    told = json.loads((submitting.path / "srun").read_text())
    assert (told["argv"], told["gpus"]) == (["--lr", "1"], "4")
    (job,) = submitting.path.glob("submitit/12345_submission.sh")
    for directive in ("nodes=2", "ntasks-per-node=1", "gpus-per-node=4", "cpus-per-task=16", "signal=USR2@120"):
        assert f"#SBATCH --{directive}\n" in job.read_text()
    assert submitted(submitting)._timeout_countdown == 1000


def test_a_job_of_submitit_near_its_end_stops_the_training_and_goes_back(submitting: Folder) -> None:
    write_job(submitting)
    submit(submitting, "train_distributed.submit.py", "--lr", "1", WAITS="yes")
    until(lambda: (submitting.path / "srun").exists(), "it trains")
    os.killpg(int((submitting.path / "task").read_text()), signal.SIGUSR2)  # as SLURM does: all of the task
    assert status(submitting) == 255
    assert deeds(submitting) == ["scontrol requeue 12345"]
    told = json.loads((submitting.path / "srun").read_text())
    assert not runs(told["pid"])
    assert submitted(submitting).function.arguments == ["--lr", "1"]


@pytest.mark.parametrize(("node", "requeued"), [("0", True), ("1", False)])
def test_a_job_of_submitit_goes_back_into_the_queue_for_another_round(
    submitting: Folder, node: str, requeued: bool
) -> None:
    write_job(submitting)
    submit(submitting, "train_distributed.submit.py", STATUS="75", SLURM_PROCID=node)
    assert status(submitting) == 75
    assert deeds(submitting) == ["scontrol requeue 12345"] * requeued


def test_submitit_starts_a_script_without_rounds_by_torchrun(submitting: Folder) -> None:
    submitting.write("it's.py", SCRIPT)
    assert submitting.run("launch", "--launcher", "submitit", "--nodes", "2", "it's.py").code == 0
    assert "round" not in submitting.text("it's.submit.py")
    submit(submitting, "it's.submit.py", "--lr", "1")
    assert status(submitting) == 0
    argv = json.loads((submitting.path / "srun").read_text())["argv"]
    assert argv[:3] == ["--nnodes=2", "--nproc_per_node=gpu", "--rdzv_backend=c10d"]
    assert "--rdzv_endpoint=node7:22345" in argv
    assert argv[-3:] == [str(submitting.path / "it's.py"), "--lr", "1"]
