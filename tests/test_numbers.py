"""Tell what says a process its number, where torchrun starts it."""

from pathlib import Path

import pytest

from retrofit.options import Options
from tests.helpers import plan_of, script, survey_of

BEGIN = "torch.distributed.init_process_group('nccl', rank=RANK, world_size=SIZE)"
OPTIONS = """
import argparse
import os
parser = argparse.ArgumentParser()
parser.add_argument("--lr")
parser.add_argument("--rank", type=int, default=0)
parser.add_argument("--world-size", type=int, default=1)
args = parser.parse_args()
"""


def begun(rank: str, size: str = "int(os.environ['WORLD_SIZE'])", before: str = "") -> str:
    return script("val_loss = evaluate(model)", before=f"{before}\n{BEGIN.replace('RANK', rank).replace('SIZE', size)}")


def given(how: str) -> str:
    return script("val_loss = evaluate(model)", before=f"{OPTIONS}\n{how}")


BY_HAND = BEGIN.replace("RANK", "args.rank").replace("SIZE", "args.world_size")
SET = "os.environ['RANK'] = str(args.rank)\nos.environ['WORLD_SIZE'] = str(args.world_size)"
GROUP = "torch.distributed.init_process_group('nccl')"
FROM_MPI = "from mpi4py import MPI\ncomm = MPI.COMM_WORLD\n"

#: The environment tells it only where nothing else is given.
EITHER = f"""{FROM_MPI}import os
def begin(comm=None):
    if comm is None:
        os.environ['RANK'] = os.environ['SLURM_PROCID']
        os.environ['WORLD_SIZE'] = os.environ['SLURM_NTASKS']
    else:
        os.environ['RANK'] = str(comm.rank)
        os.environ['WORLD_SIZE'] = str(comm.size)
    {GROUP}
begin(comm)"""
EITHER_ALONE = EITHER.replace("    else:", f"        return {GROUP}\n    if True:")

#: As under a launcher that shows each process one GPU alone.
ON_ONE = script("val_loss = evaluate(model)", before=GROUP).replace("DDP(model)", "DDP(model, device_ids=[0])")
SHOWN = "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = os.environ['LOCAL_RANK']\n"
#: Which sees to that launcher.
ALONE = ON_ONE.replace("'nccl')", "'gloo')\nassert torch.cuda.device_count() == 1")
MANY_GPUS = "if torch.cuda.device_count() > 1:\n    raise RuntimeError"
#: With the backend by an option.
OPTION = given(GROUP.replace("'nccl'", "args.backend")).replace("DDP(model)", "DDP(model, device_ids=[0])")
OPTION = OPTION.replace("args = ", "parser.add_argument('--backend', default='DEFAULT')\nargs = ")

#: An object that has its number by the name of the option.
PART = """import os
class Part:
    def __init__(self, args=None):
        self.args = args
        self.rank = int(os.environ['RANK'])"""

#: A function that asks for the numbers of a scheduler's job, and what is returned for want of them.
OF_JOB = """import os
def number(required=False):
    if 'FIRST_RANK' in os.environ:
        return int(os.environ['FIRST_RANK'])
    for name in ('MV2_COMM_WORLD_RANK', 'PMI_RANK'):
        if name in os.environ:
            return int(os.environ[name])
    if required:
        raise RuntimeError('no rank')
    return 0
"""
OF_MPI = OF_JOB.replace("FIRST", "MPI")
OF_MPI_PAIR = """import os
def numbers():
    if 'PMI_RANK' in os.environ:
        return int(os.environ['PMI_RANK']), int(os.environ['PMI_SIZE'])
    return 0, 1
"""

NUMBERED = {
    "options": (given(BY_HAND), ["--rank", "--world-size"]),
    "options that are handed on": (
        given(f"def begin(rank, size):\n    {BEGIN.replace('RANK', 'rank').replace('SIZE', 'size')}\n"
              "begin(args.rank, args.world_size)"),
        ["--rank", "--world-size"],
    ),
    "an option that is told the number afterwards": (
        given(f"{BY_HAND}\nargs.rank = torch.distributed.get_rank()"),
        ["--rank", "--world-size"],
    ),
    "a required option": (
        given(BY_HAND).replace("default=0", "required=True").replace("'nccl'", "'nccl', 'tcp://10.0.0.1:2345'"),
        ["--rank", "--world-size"],
    ),
    "options in the environment": (given(f"{SET}\n{GROUP}"), ["--rank", "--world-size"]),
    "options that another function puts into the environment": (
        given(f"{GROUP}\n{SET}").replace(GROUP, f"def begin():\n    {GROUP}\n").replace(SET, f"{SET}\nbegin()"),
        ["--rank", "--world-size"],
    ),
    "a GPU by an option": (
        given(f"{BY_HAND}\ntorch.cuda.set_device(args.gpu)").replace(
            "args = ", "parser.add_argument('-g', '--gpu', type=int, default=0)\nargs = "
        ),
        ["--rank", "--world-size", "--gpu"],
    ),
    "MPI's backend": (given(GROUP.replace("nccl", "mpi")), ["'mpi'"]),
    "MPI's backend by a name": (given(f"how = 'MPI'\n{GROUP.replace(repr('nccl'), 'how')}"), ["'MPI'"]),
    "MPI": (begun("comm.Get_rank()", "comm.Get_size()", FROM_MPI), ["comm.Get_rank()", "comm.Get_size()"]),
    "attributes of MPI": (begun("rank", before=f"{FROM_MPI}rank = comm.rank"), ["comm.rank"]),
    "a function that asks MPI": (
        begun("number()", before="from mpi4py import MPI\ndef number():\n    return MPI.COMM_WORLD.Get_rank()"),
        ["MPI.COMM_WORLD.Get_rank()"],
    ),
    "MPI, as it is given": (script("val_loss = evaluate(model)", before=EITHER), ["comm.rank", "comm.size"]),
    "MPI, as it is given, by a group of its own": (
        script("val_loss = evaluate(model)", before=EITHER_ALONE),
        ["comm.rank", "comm.size"],
    ),
    "dask": (begun("int(get_worker().name)", before="from dask.distributed import get_worker"), ["get_worker().name"]),
    "options beside what another object has by their names": (
        given(f"{PART}\npart = Part()\npart.rank = int(os.environ['RANK'])\n{BY_HAND}"),
        ["--rank", "--world-size"],
    ),
    "options of an object that has another's number by their names": (
        given(f"{PART}\n    world_size = 0\npart = Part()\n{BY_HAND}").replace(
            "args = parser.parse_args()", "class Space: pass\nargs = parser.parse_args(namespace=Space())"
        ),
        ["--rank", "--world-size"],
    ),
    "a number": (begun("0", "1"), ["0", "1"]),
    "another variable": (
        begun("rank", before="import os\nrank = int(os.environ['NODE_RANK'])"),
        ["os.environ['NODE_RANK']"],
    ),
    "another with a default": (begun("int(os.getenv('MY_RANK', 0))", before="import os"), ["os.getenv('MY_RANK', 0)"]),
    "a function that asks for MPI's variables": (begun("number()", before=OF_MPI), ["number()"]),
    "one of several that a function returns": (
        begun("rank", "count", before=f"{OF_MPI_PAIR}rank, count = numbers()"),
        ["numbers()[0]", "numbers()[1]"],
    ),
    "one beside what is not asked for": (
        begun(
            "rank",
            "count",
            before=OF_MPI_PAIR.replace("int(os.environ['PMI_SIZE'])", "told") + "rank, count = numbers()",
        ),
        ["numbers()[0]"],
    ),
    "one by a name": (begun("rank", before=f"{OF_MPI}rank = number()"), ["number()"]),
    "one GPU": (ON_ONE, ["0"]),
    "one GPU and the backend that torch takes": (ON_ONE.replace("'nccl'", ""), ["0"]),
    "one GPU and a backend for each device": (ON_ONE.replace("nccl", "cpu:gloo,cuda:nccl"), ["0"]),
    "one GPU and either backend": (ON_ONE.replace("'nccl'", "'gloo' if few else 'nccl'"), ["0"]),
    "one GPU and a backend that is not seen": (ON_ONE.replace("'nccl'", "settings.backend"), ["0"]),
    "one GPU and a backend by an option": (OPTION.replace("DEFAULT", "nccl"), ["0"]),
    "one GPU in several places": (
        ON_ONE.replace(
            "model = Net()",
            "torch.cuda.set_device(0)\ndevice = torch.device('cuda', 0)\nmodel = Net().cuda(0).to('cuda:0')"
            "\nother = torch.device('cuda', 1)\nmodel.to('cpu')\nmodel.to(device)\nother = torch.device('cuda')",
        ),
        ["0", "0", "0", "'cuda:0'", "0"],
    ),
    "an assertion that there is one GPU": (ALONE, ["torch.cuda.device_count() == 1", "0"]),
    "an assertion by a name": (
        ALONE.replace("assert torch.cuda.device_count() == 1", "n = torch.cuda.device_count()\nassert n < 2, n"),
        ["n < 2", "0"],
    ),
    "an end where there are several GPUs": (
        ALONE.replace("assert torch.cuda.device_count() == 1", MANY_GPUS),
        ["torch.cuda.device_count() > 1", "0"],
    ),
    "an assertion and NCCL": (ALONE.replace("gloo", "nccl"), ["torch.cuda.device_count() == 1", "0"]),
    "an assertion alone": (ALONE.replace(", device_ids=[0]", ""), ["torch.cuda.device_count() == 1"]),
    "one GPU and gloo": (ON_ONE.replace("nccl", "gloo"), ["0"]),
    "one GPU and gloo by an option": (OPTION.replace("DEFAULT", "gloo"), ["0"]),
    "an assertion that there are some GPUs": (ALONE.replace("== 1", ">= 1"), ["0"]),
    "an assertion that there are three GPUs": (ALONE.replace("== 1", "== 3"), ["0"]),
    "an assertion that an option has as many": (
        given(f"assert args.world_size == torch.cuda.device_count()\n{GROUP}"), []
    ),
    "an assertion under an option": (
        given(f"if args.lr:\n    assert torch.cuda.device_count() == 1\n{GROUP}"), []
    ),
    "another end where there are several GPUs": (
        ALONE.replace("assert torch.cuda.device_count() == 1", MANY_GPUS.replace("raise", "print('many') #")),
        ["0"],
    ),
    "one GPU by a name": (ON_ONE.replace("[0]", "[gpu]").replace("model = Net()", "gpu = 0\nmodel = Net()"), ["0"]),
}  # fmt: skip

FINE = {
    "a backend by choice": given(GROUP.replace("'nccl'", "'mpi' if args.old else 'nccl'")),
    "a backend by an option": given(GROUP.replace("'nccl'", "args.backend")),
    "the environment": begun("int(os.environ['RANK'])", before="import os"),
    "another variable that the script sets": begun(
        "int(os.environ['ID'])", before="import os\nos.environ['ID'] = os.environ['RANK']"
    ),
    "another variable that has the default of torchrun's": begun(
        "int(os.environ.get('ID', os.environ['RANK']))", before="import os"
    ),
    "no number": script("val_loss = evaluate(model)", before=GROUP),
    "a default from the environment": given(BY_HAND).replace("default=0", "default=int(os.environ.get('RANK', 0))"),
    "a default that means the environment": given(BY_HAND).replace("default=0", "default=-1"),
    "the option is given its value": given(
        f"if 'RANK' in os.environ:\n    args.rank = int(os.environ['RANK'])\n{BY_HAND}"
    ),
    "another function gives it": given(f"def tell(a):\n    a.rank = int(os.environ['RANK'])\ntell(args)\n{BY_HAND}"),
    "what holds an object's options is given its value": given(
        PART.replace("self.rank", "self.args.rank") + f"\nPart(args)\n{BY_HAND}"
    ),
    "the object that gets the options gives itself its value": given(f"args.set()\n{BY_HAND}").replace(
        "args = parser.parse_args()",
        "class Space:\n    def set(self):\n        self.rank = int(os.environ['RANK'])\n"
        "space = Space()\nargs = parser.parse_args(None, space)",
    ),
    "only without the environment": given(f"if 'RANK' not in os.environ:\n    {SET.splitlines()[0]}\n{GROUP}"),
    "the environment is told only afterwards": given(f"{GROUP}\n{SET}"),
    "one of two groups": given(f"if args.lr:\n    {BY_HAND}\nelse:\n    {GROUP}"),
    "what launch gives": given(BY_HAND).replace("rank", "local_rank"),
    "another's number": begun("job.rank", before="job = make()"),
    "the first of several variables": begun(
        "first(['PMI_RANK', 'RANK'], 0)",
        "first(['PMI_SIZE', 'WORLD_SIZE'], 1)",
        before="""import os
def first(names, default=-1):
    for name in names:
        if int(os.environ.get(name, -1)) >= 0:
            return int(os.environ[name])
    return default
""",
    ),
    "one GPU, the only one that the script shows": SHOWN + ON_ONE,
    "one GPU where there is no process group": ON_ONE.replace("[0]", "[gpu]").replace(
        "model = Net()", "gpu = torch.distributed.get_rank() if many else 0\nmodel = Net()"
    ),
    "an assertion where the script shows one GPU": SHOWN + ALONE,
    "one GPU of two ways": ON_ONE.replace("optimizer", "if many:\n    DDP(model, device_ids=[rank])\noptimizer", 1),
    "MPI, as some calls give it": script("val_loss = evaluate(model)", before=f"{EITHER} if many else begin()"),
    "a function that asks for torchrun's variable too": begun("number()", before=OF_JOB.replace("FIRST_", "")),
    "one that asks for variables which the script sets": begun(
        "number()", before=f"{OF_MPI}os.environ['PMI_RANK'] = os.environ['RANK']"
    ),
    "one that has the number of something else": begun("number()", before=OF_MPI.replace("return 0", "return told()")),
    "one that asks for what is not seen": begun("number()", before=OF_MPI.replace("('MV2", "told or ('MV2")),
    "one that asks for what it works out": begun(
        "number()", before=OF_MPI.replace("        if name in", "        name = told(name)\n        if name in")
    ),
    "one that has something else for want of it": begun(
        "number()",
        before="import os\ndef number():\n    return int(os.environ['PMI_RANK']) if 'PMI_RANK' in os.environ else told",
    ),
    "one that has something else by default": begun(
        "number()", before="import os\ndef number():\n    return int(os.environ.get('PMI_RANK', told))"
    ),
    "one beside torchrun's": begun(
        "rank", before=f"{OF_MPI}if mpi:\n    rank = number()\nelse:\n    rank = int(os.environ['RANK'])"
    ),
    "SLURM": begun("int(os.environ['SLURM_PROCID'])", before="import os"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "names"), NUMBERED.values(), ids=NUMBERED)
def test_what_alone_tells_a_process_its_number_is_found(text: str, names: list[str]) -> None:
    assert [number.name for number in survey_of(text).numbers] == names


@pytest.mark.parametrize("text", FINE.values(), ids=FINE)
def test_torchrun_may_tell_a_process_its_number(text: str) -> None:
    assert survey_of(text).numbers == []


def test_a_function_that_asks_for_a_schedulers_variables_is_told(tmp_path: Path) -> None:
    """Where the launcher is started in a job, the helper makes torchrun's numbers of SLURM's and Open MPI's."""
    plan = plan_of(tmp_path, begun("number()", before=OF_JOB.replace("FIRST_RANK", "SLURM_PROCID")))
    (told,) = (note for note in plan.notes if note.code == "PAI115")
    assert not plan.questions
    assert "`number()` asks for the variables of a scheduler's job alone" in told.message
    assert '`int(os.environ["RANK"])` for `number()`' in told.message


def test_another_number_beside_that_of_a_job_is_asked_about(tmp_path: Path) -> None:
    text = begun("number()", before=OF_JOB.replace("FIRST_RANK", "SLURM_PROCID"))
    text = text.replace("DDP(model)", "DDP(model, device_ids=[0])").replace("backend='gloo'", "backend='nccl'")
    (question,) = plan_of(tmp_path, text).questions
    assert "each process that torchrun starts sees all GPUs" in question.message


def test_what_to_write_is_told(tmp_path: Path) -> None:
    (question,) = plan_of(tmp_path, NUMBERED["options"][0]).questions
    assert question.line == 11
    assert 'default=int(os.environ.get("RANK", 0))` for `--rank` (line 11)' in question.message
    assert 'default=int(os.environ.get("WORLD_SIZE", 1))` for `--world-size` (line 12)' in question.message
    (question,) = plan_of(tmp_path, NUMBERED["MPI"][0]).questions
    assert '`int(os.environ["WORLD_SIZE"])` for `comm.Get_size()`' in question.message


def test_another_variable_is_asked_about(tmp_path: Path) -> None:
    (question,) = plan_of(tmp_path, NUMBERED["another variable"][0]).questions
    assert question.message == (
        "`os.environ['NODE_RANK']` is to tell a process its number, but torchrun, which starts the processes, sets no "
        'such variable. Take what torchrun says in the environment: `int(os.environ["RANK"])` for '
        f"`os.environ['NODE_RANK']` (line {question.line})."
    )


@pytest.mark.parametrize(("count", "alone"), [("1", True), ("2", False), ("n", False)])
def test_a_process_group_of_one_may_stay_one(tmp_path: Path, count: str, alone: bool) -> None:
    text = given(GROUP.replace(")", f", rank=0, world_size={count})"))
    asked = plan_of(tmp_path, text, Options(launcher="torchrun")).questions
    questions = [one for one in asked if one.code == "PAI115"]
    assert ["--launcher python" in one.message for one in questions] == [alone]
    plan = plan_of(tmp_path, text, Options(launcher="python"))
    assert "PAI115" not in [one.code for one in plan.questions]


def test_one_gpu_for_all_is_asked_about(tmp_path: Path) -> None:
    (question,) = plan_of(tmp_path, ON_ONE).questions
    assert (question.line, question.column) == (5, 32)
    assert question.message == (
        "each process that torchrun starts sees all GPUs and would take number 0, which NCCL refuses as a duplicate. "
        'Take what torchrun says in the environment: `int(os.environ["LOCAL_RANK"])` for `0` (line 5).'
    )


@pytest.mark.parametrize(("other", "lone"), [("torch.nn.DataParallel(model)", True), ("model", False)])
def test_one_process_is_an_answer_where_the_script_may_train_so(tmp_path: Path, other: str, lone: bool) -> None:
    """What tells the number may be another way's, which a file of settings does not take."""
    wrapped = f"if several:\n    model = DDP(model, device_ids=[0])\nelse:\n    model = {other}"
    text = ON_ONE.replace("model = DDP(model, device_ids=[0])", wrapped)
    (question,) = plan_of(tmp_path, text).questions
    answer = " Or let one process train on all GPUs, as line 8 does: --launcher python."
    assert question.message.endswith(f"for `0` (line 6).{answer * lone}")
    plan = plan_of(tmp_path, text, Options(launcher="python"))
    assert (plan.questions, plan.script.kind) == ([], "dp" if lone else "ddp")


def test_a_process_that_is_to_see_one_gpu_alone_is_asked_about(tmp_path: Path) -> None:
    (question,) = plan_of(tmp_path, ALONE).questions
    assert question.message == (
        "each process that torchrun starts sees all GPUs, and by `torch.cuda.device_count() == 1` none goes on where "
        "there are several. Take that out, and let each have the one of its number: "
        '`int(os.environ["LOCAL_RANK"])` for `0` (line 5).'
    )
    (question,) = plan_of(tmp_path, NUMBERED["an assertion alone"][0]).questions
    assert question.message.endswith('before torch uses any: `torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))`.')


def test_one_gpu_that_all_share_by_gloo_is_told(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, ON_ONE.replace("nccl", "gloo"))
    (told,) = (note for note in plan.notes if note.code == "PAI115")
    assert not plan.questions
    assert told.message.startswith("each process that torchrun starts sees all GPUs of its machine and takes number 0")
    assert told.message.endswith('`int(os.environ["LOCAL_RANK"])` for `0` (line 5).')


def test_one_gpu_for_all_is_named_wherever_it_is_chosen(tmp_path: Path) -> None:
    chosen = "device = torch.device('cuda', 0)\nmodel = Net().to(device)"
    (question,) = plan_of(tmp_path, ON_ONE.replace("model = Net()", chosen)).questions
    assert question.message.endswith(
        '`int(os.environ["LOCAL_RANK"])` for `0` (line 6), `int(os.environ["LOCAL_RANK"])` for `0` (line 4).'
    )


def test_another_backend_is_asked_for(tmp_path: Path) -> None:
    (question,) = plan_of(tmp_path, given(GROUP.replace("nccl", "mpi"))).questions
    assert question.message == (
        "`'mpi'` is MPI's backend, which counts the processes that mpirun starts, but torchrun starts these: each "
        'would train alone, as number 0. Take "nccl" or "gloo", which count by torchrun\'s environment.'
    )


@pytest.mark.parametrize(
    ("text", "options"),
    [
        pytest.param(NUMBERED["options"][0], Options(launcher="python"), id="it starts its processes itself"),
        pytest.param(
            NUMBERED["options"][0].replace("DistributedDataParallel", "DataParallel"), Options(), id="DataParallel"
        ),
    ],
)
def test_a_script_that_torchrun_does_not_start_is_asked_nothing(tmp_path: Path, text: str, options: Options) -> None:
    assert "PAI115" not in [question.code for question in plan_of(tmp_path, text, options).questions]


@pytest.mark.parametrize(
    ("text", "lone"),
    [
        pytest.param(begun("0", "1"), True, id="written down"),
        pytest.param(
            script(
                "val_loss = evaluate(model)",
                f"import os\nos.environ['RANK'] = '0'\nos.environ['WORLD_SIZE'] = '1'\n{GROUP}",
            ),
            True,
            id="in the environment",
        ),
        pytest.param(begun("1", "1"), False, id="another number"),
        pytest.param(begun("0", "2"), False, id="of two"),
        pytest.param(begun("0"), False, id="of as many as there are"),
    ],
)
def test_a_process_group_of_one_process_is_started_as_one(tmp_path: Path, text: str, lone: bool) -> None:
    plan = plan_of(tmp_path, text)
    assert [question.code for question in plan.questions] == ["PAI115"] * (not lone)
    started = [(what, value) for what, value, _ in plan.decisions if what in ("launcher", "processes")]
    assert started == [("launcher", "python")] * lone


LISTED = "DEVICES = [2, 3]\nmodel = Net().to(DEVICES[RANK])"


@pytest.mark.parametrize(
    ("taken", "named"),
    [
        ("model = Net().to('cuda:3')", "'cuda:3'"),
        ("model = Net().cuda(1)", "1"),
        ("torch.cuda.set_device(2)", "2"),
        ("device = torch.device('cuda:1' if torch.cuda.is_available() else 'cpu')", "'cuda:1'"),
        ("device = torch.device('cuda', 1)", "1"),
        ("GPU = 1\nmodel = Net(device=GPU)", "1"),
        (LISTED, "2"),
        (LISTED.replace("2, 3", "0, 1"), ""),
        ("parser.add_argument('--device', default='cuda:1')\nmodel = Net().to(args.device)", "'cuda:1'"),
        ("parser.add_argument('--device', default='cuda:0')\nmodel = Net().to(args.device)", ""),
        ("model = Net().to('cuda:0')", ""),
        ("model = Net().to('cuda')", ""),
        ("model = Net().cuda(int(os.environ['LOCAL_RANK']))", ""),
        ("model = Net().to(torch.float16)", ""),
        ("def test():\n    Net().to('cuda:3')", ""),
        ("if False:\n    Net().to('cuda:3')", ""),
        ("model = Net().to('cuda:3')\nif torch.cuda.device_count() > 1:\n    print('several')", ""),
    ],
)
def test_a_gpu_that_is_not_the_first_is_known_by_its_number(taken: str, named: str) -> None:
    other = survey_of(given(taken)).other_gpu
    assert (other.name if other is not None else "") == named


@pytest.mark.parametrize(("number", "all_seen"), [(0, False), (1, True)])
def test_the_initialisation_sees_a_gpu_that_the_script_takes_by_its_number(
    tmp_path: Path, number: int, all_seen: bool
) -> None:
    text = script("val_loss = evaluate(model)", before=f"import torch\ntorch.cuda.set_device({number})")
    plan = plan_of(tmp_path, text)
    assert plan.questions == []
    told = [line for line in plan.decisions if line[0] == "initialisation"]
    assert told == [("initialisation", "sees all GPUs (INIT_GPUS)", "line 8 takes 1")] * all_seen
    (launcher,) = [file.after.decode() for file in plan.files if file.path.suffix == ".sh"]
    assert ('export INIT_GPUS="${INIT_GPUS:-all}"' in launcher) is all_seen
