"""Every lasting choice, as data: what an option of a command takes, and a key of `[tool.retrofit]`.

Options, their help, the validation of both and its messages are made from `KEYS`, and so is what documents say. To
add a choice is to add a row, and to ask for its value.
"""

from __future__ import annotations

import ast
import os
import re
from dataclasses import dataclass
from pathlib import Path

from retrofit.check import LEVELS

#: Whose an expression is, before it: a function's, or that of its call which is given something.
OWNER = re.compile(r"^([A-Za-z_]\w*(?:@[^:]+)?):(?!=)")


class Values:
    """What a choice may be.

    Attributes:
        wanted: the same in words, as messages and documents say it.
        repeated: whether the option may be given several times.
    """

    wanted = "a string"
    repeated = False

    def read(self, value: object, folder: Path | None = None) -> object:
        """Return a value, as the command line or TOML has it, in the type that it shall have.

        Args:
            value: the value.
            folder: what relative paths are relative to, None for the working folder.

        Raises:
            ValueError: it is none of these; with the reason as a sentence, or nothing where `wanted` says it.
        """
        if not isinstance(value, str):
            raise ValueError
        return value


class Text(Values):
    """A string that matches a pattern, or a number whose digits do."""

    def __init__(self, pattern: str, wanted: str) -> None:
        self.pattern = pattern
        self.wanted = wanted

    def read(self, value: object, folder: Path | None = None) -> str:
        if not isinstance(value, (str, int)) or isinstance(value, bool):
            raise ValueError
        if not re.fullmatch(self.pattern, str(value), re.ASCII):
            raise ValueError
        return str(value)


class OneOf(Values):
    """One of some words."""

    def __init__(self, *words: str) -> None:
        self.words = words
        self.wanted = f"{', '.join(words[:-1])} or {words[-1]}"

    def read(self, value: object, folder: Path | None = None) -> object:
        if value not in self.words:
            raise ValueError
        return value


class Number(Values):
    """A number that is not too small: a whole one, at least ``lowest``, or any that is greater."""

    def __init__(self, lowest: int, whole: bool = True) -> None:
        self.lowest = lowest
        self.whole = whole
        self.wanted = f"a whole number, at least {lowest}" if whole else f"a number greater than {lowest}"

    def read(self, value: object, folder: Path | None = None) -> object:
        kinds = (int,) if self.whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise ValueError
        if value < self.lowest or (value == self.lowest and not self.whole):
            raise ValueError
        return value


class Switch(Values):
    """On or off."""

    wanted = "true or false"

    def read(self, value: object, folder: Path | None = None) -> object:
        if not isinstance(value, bool):
            raise ValueError
        return value


class Words(Values):
    """A list of strings."""

    repeated = True

    def __init__(self, wanted: str) -> None:
        self.wanted = wanted

    def read(self, value: object, folder: Path | None = None) -> tuple[str, ...]:
        if not isinstance(value, (list, tuple)) or not all(isinstance(word, str) for word in value):
            raise ValueError
        return tuple(value)


class Rules(Words):
    """A list of rules."""

    def __init__(self) -> None:
        super().__init__('a list such as ["DDP2"]')


class Modules(Words):
    """The full names of modules."""

    def __init__(self) -> None:
        super().__init__('a list such as ["trainer.trainer"]')

    def read(self, value: object, folder: Path | None = None) -> tuple[str, ...]:
        names = super().read(value)
        for name in names:
            if not all(part.isidentifier() for part in name.split(".")):
                raise ValueError(f"{name!r} is no module's name. Give one as imports have it, such as trainer.trainer.")
        return names


class Dimensions(Words):
    """Where the neurons of layers are."""

    def read(self, value: object, folder: Path | None = None) -> tuple[str, ...]:
        entries = super().read(value)
        if len({entry.partition("=")[0].strip() for entry in entries}) < len(entries):
            raise ValueError("a layer is named twice.")
        for entry in entries:
            layer, _, numbers = entry.replace(" ", "").partition("=")
            places = numbers.split(",")
            if not layer or sorted(places) != [*["-1"] * (len(places) - 1), "0"]:
                raise ValueError(
                    f"{entry!r} is not LAYER=NUMBERS with one 0 where the layer's neurons are and -1 elsewhere, "
                    "such as encoder.fc=-1,-1,0."
                )
        return entries


class Settings(Values):
    """Settings of the recipe's library, by their names."""

    wanted = "a table such as {n_epochs_to_switch = 5}"
    repeated = True

    def read(self, value: object, folder: Path | None = None) -> tuple[tuple[str, str], ...]:
        if isinstance(value, dict):
            return tuple((str(name), repr(one)) for name, one in value.items())
        if not isinstance(value, (list, tuple)):
            raise ValueError
        return tuple(self._parsed(str(entry)) for entry in value)

    def _parsed(self, entry: str) -> tuple[str, str]:
        name, _, code = entry.partition("=")
        try:
            return name.strip(), repr(ast.literal_eval(code.strip()))
        except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
            example = "n_epochs_to_switch=5"
            raise ValueError(f"{entry!r} is not NAME=VALUE with a Python value, such as {example}.") from None


class Expression(Values):
    """A Python expression of one value, perhaps with the name of the function before it that has the value."""

    wanted = "an expression such as val_acc or stats['acc1']"

    def read(self, value: object, folder: Path | None = None) -> str:
        if not isinstance(value, str):
            raise ValueError
        try:
            tree = ast.parse(OWNER.sub("", value.strip()).strip(), mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            tree = None
        if tree is None or isinstance(tree.body, (ast.Tuple, ast.Starred, ast.NamedExpr)):
            raise ValueError(f"{value!r} is no expression of one value. Give one such as val_acc or stats['acc1'].")
        for part in ast.walk(tree):
            if isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Constant) and part.slice.value is ...:
                held = ast.unparse(part.value)
                raise ValueError(
                    f"{value!r} leaves open which number of `{held}` is meant. Write its key or number for the dots, "
                    f"such as {held}['acc1'] or {held}[0]."
                )
        return value.strip()


class Folder(Values):
    """The path of a folder."""

    wanted = "a path"

    def read(self, value: object, folder: Path | None = None) -> Path:
        if not isinstance(value, (str, Path)):
            raise ValueError
        return Path(folder or "", value)


class Files(Words):
    """A list of paths of files."""

    def read(self, value: object, folder: Path | None = None) -> tuple[Path, ...]:  # type: ignore[override]
        return tuple(Path(os.path.abspath(folder or ""), path) for path in super().read(value))


class LevelsByRule(Values):
    """A table of levels by rules."""

    wanted = "a table of levels"

    def read(self, value: object, folder: Path | None = None) -> tuple[tuple[str, str], ...]:
        if not isinstance(value, dict):
            raise ValueError
        for selector, level in value.items():
            _, *levels = LEVELS  # what is open is not for a project to say
            if level not in levels:
                words = f"{', '.join(levels[:-1])} or {levels[-1]}"
                raise ValueError(f"severity: {selector} is {level!r}; it must be {words}.")
        return tuple(value.items())


class RulesByPattern(Values):
    """A table of lists of rules by patterns of files."""

    wanted = 'a table of lists such as {"tests/*" = ["DDP2"]}'

    def read(self, value: object, folder: Path | None = None) -> tuple[tuple[str, tuple[str, ...]], ...]:
        if not isinstance(value, dict):
            raise ValueError
        return tuple((pattern, Rules().read(selectors)) for pattern, selectors in value.items())


#: The keys of all commands.
EVERYWHERE = ("",)


@dataclass(frozen=True)
class Key:
    """A lasting choice.

    Attributes:
        name: of the key, and after two dashes of the option.
        commands: those that it is for; a key of the same name may say other things of other commands.
        takes: what it may be.
        meaning: what it decides, in whole sentences.
        default: what counts where nobody chose.
        shown: the default in the words of help, "" for the default itself.
        metavar: what stands for the value in help.
        short: the option's one-letter form, such as ``-q``.
        option: whether there is an option, else only the key.
    """

    name: str
    commands: tuple[str, ...]
    takes: Values
    meaning: str
    default: object = None
    shown: str = ""
    metavar: str = ""
    short: str = ""
    option: bool = True

    @property
    def attribute(self) -> str:
        """The name in Python."""
        return self.name.replace("-", "_")

    @property
    def default_text(self) -> str:
        """The default as help and documents say it."""
        return self.shown or (str(self.default) if not isinstance(self.default, bool) else "off")

    def read(self, value: object, folder: Path | None = None) -> object:
        """Return a value in the type that it shall have; see `Values.read`.

        Raises:
            ValueError: it is not possible, with the reason as a sentence.
        """
        try:
            return self.takes.read(value, folder)
        except ValueError as error:
            raise ValueError(str(error) or f"{self.name} is {value!r}; it must be {self.takes.wanted}.") from None


_RECIPE = ("apply", "inspect", "verify")

#: In the order of help.
KEYS = (
    Key(
        "metric", _RECIPE, Expression(),
        "The validation score, as an expression of the epoch loop, or of a function that it leads to; where several "
        "have the name, with the function's before it (validate:acc), and what one of its calls alone is given "
        "(validate@dev:acc).",
        shown="found", metavar="EXPR",
    ),
    Key("mode", _RECIPE, OneOf("max", "min"), "Is a higher or a lower score better?", shown="found"),
    Key(
        "model", _RECIPE,
        Text(
            r"([^:]+:)?[A-Za-z_][\w.\[\]'\"]*",
            "a variable's name, perhaps with FUNCTION., CLASS. or FILE: before it",
        ),
        "The wrapped model that gets dendrites; where several have one name, with the function or class that wraps it "
        "(Trainer.model), or with the file (lib/train.py:model).",
        shown="the only one", metavar="NAME",
    ),
    Key(
        "optimizer", _RECIPE, Text(r"[A-Za-z_][\w.\[\]'\"]*", "a variable's name, such as optimizer or self.optimizer"),
        "The optimizer of the model that the library is told of, where several train it; the others stay the script's "
        "own.",
        shown="the only one", metavar="NAME",
    ),
    Key(
        "module", _RECIPE, Modules(),
        "A module of the project that the script imports by a name made at run time, and that wraps the model or "
        "trains it (trainer.trainer); may be repeated.",
        default=(), shown="found where the project tells", metavar="NAME",
    ),
    Key(
        "save-name", _RECIPE, Text(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*", "letters, digits, `_`, `.` and `-` only"),
        "Folder of the checkpoints.", shown="the script's, or PAI_ and its file name", metavar="NAME",
    ),
    Key(
        "output-dimensions", _RECIPE, Dimensions('a list such as ["fc=-1,-1,0"]'),
        "Where a layer's neurons are: 0 there, -1 elsewhere, as in encoder.fc=-1,-1,0; may be repeated.",
        default=(), shown="found by the initialisation run", metavar="LAYER=DIMS",
    ),
    Key(
        "rounds", _RECIPE, OneOf("history", "planned"),
        "When a structure is trained enough: when its score rises no more, or at the end that the script has planned.",
        shown="there if the learning rate moves until then, else by the score",
    ),
    Key(
        "in-process", _RECIPE, Switch(),
        "Restructure a DataParallel model while its process goes on, as the published recipe does; the tracker must "
        "build optimizer and scheduler.",
        default=False, shown="training restarts",
    ),
    Key(
        "data-parallel", _RECIPE, Switch(),
        "Wrap a model that grows dendrites on one GPU in DataParallel.",
        default=False, shown="the script's own wrapper",
    ),
    Key(
        "settings", _RECIPE, Settings(), "A setting of the library, such as n_epochs_to_switch=5; may be repeated.",
        default=(), shown="the library's own", metavar="NAME=VALUE",
    ),
    Key("rules", (*_RECIPE, "rule"), Folder(), "A folder of further rules.", shown="none", metavar="DIR"),
    Key(
        "knowledge", (*_RECIPE, "check"), Files('a list such as ["tools/ourlib.toml"]'),
        "A file that says what functions and classes of libraries do: what wraps, steps, backpropagates; may be "
        "repeated.",
        default=(), shown="none", metavar="FILE",
    ),
    Key(
        "nodes", ("apply", "launch"), Number(1), "Machines that a batch system's job is for.", default=1, metavar="N",
    ),
    Key(
        "nproc-per-node", ("apply", "launch"), Text(r"gpu|[1-9]\d*", "a number of processes, or gpu"),
        "Processes on one machine.", default="gpu", shown="gpu, one on each visible GPU", metavar="N|gpu",
    ),
    Key(
        "gpus", ("apply",), Text(r"[\w-]+(,[\w-]+)*", "GPU numbers such as 0,1"),
        "GPUs to use, such as 0,1, exported as CUDA_VISIBLE_DEVICES.", default="", shown="all", metavar="IDS",
    ),
    Key(
        "launcher", ("apply", "verify", "launch"),
        OneOf("torchrun", "launch", "python", "slurm", "submitit", "trainjob", "skypilot"),
        "What starts the processes; launch is torch.distributed.launch, python is for scripts that spawn their own; "
        "slurm writes a job for sbatch as well, submitit a program that submits it, trainjob one for Kubeflow Trainer, "
        "skypilot a task for SkyPilot.",
        shown="torchrun, or as the script shows",
    ),
    Key(
        "inline", ("apply",), Switch(), "Put the helper's functions into the script itself.",
        default=False, shown="pai_distributed/ beside it",
    ),
    Key(
        "simulate-gpus", ("verify",), Number(1), "Run on N GPUs simulated on the CPU.",
        shown="2, where torch sees fewer than 2 GPUs; else 2 real ones", metavar="N",
    ),
    Key("max-batches", ("verify",), Number(1), "Batches that each data loader gives.", default=4, metavar="K"),
    # A capacity test needs four: three dendrites, then completion.
    Key("max-rounds", ("verify",), Number(4), "Rounds before giving up.", default=10, metavar="N"),
    Key(
        "timeout", ("verify",), Number(0, whole=False),
        "How long a round may go without a batch, a step or a line of output before it counts as hanging.",
        default=60, metavar="SECONDS",
    ),
    Key(
        "ranks", ("doctor",), Number(1), "Processes to try.",
        shown="one on each visible GPU, at least 2", metavar="N",
    ),
    Key(
        "timeout", ("doctor",), Number(0, whole=False), "How long the imports may take, and then the process group.",
        default=120, metavar="SECONDS",
    ),
    Key(
        "unsafe-fixes", ("check",), Switch(), "With --fix or --diff: also where it may change what is trained.",
        default=False,
    ),
    Key(
        "select", ("check",), Rules(),
        "Rules that count: codes, their beginnings such as DDP2, names, or ALL, with commas between.",
        default=("ALL",), shown="ALL", metavar="RULES",
    ),
    Key("ignore", ("check",), Rules(), "Rules that do not count.", default=(), shown="none", metavar="RULES"),
    Key(
        "exclude", ("check",), Words('a list such as ["old/*"]'),
        "Files to pass over in folders, as in .gitignore; may be repeated.",
        default=(), shown="none", metavar="PATTERN",
    ),
    Key(
        "per-file-ignores", ("check",), RulesByPattern(),
        "Rules that do not count in the files that a pattern, as in .gitignore, names.",
        default=(), shown="none", option=False,
    ),
    Key(
        "severity", ("check",), LevelsByRule(), "Other levels than the rules' own: advice, warning or error.",
        default=(), shown="none", option=False,
    ),
    Key(
        "format", ("check",), OneOf("full", "concise", "json", "sarif", "github", "junit"),
        "How to print the findings.", default="full",
    ),
    Key(
        "fail-on", ("check",), OneOf(*LEVELS), "The mildest finding that exit code 1 stands for.", default="advice",
    ),
    Key(
        "jobs", ("check",), Number(1), "Processes that work at a time.", shown="one on each CPU", metavar="N",
    ),
    Key(
        "quiet", EVERYWHERE, Switch(), "Print errors, questions, and what was asked for, such as a diff or findings.",
        default=False, short="-q",
    ),
    Key(
        "verbose", EVERYWHERE, Switch(),
        "Print also the rules behind each change, what was passed over and why, and how long it took.",
        default=False, short="-v",
    ),
    Key(
        "color", EVERYWHERE, OneOf("auto", "always", "never"),
        "Colours on terminals, in all output for people, or nowhere; NO_COLOR and FORCE_COLOR come before the key.",
        default="auto",
    ),
)  # fmt: skip

#: Options that are no keys: each is a deed of one call, where one call's output goes, or what a project must not decide
#: for whoever looks at it: which program that starts, how far it may write, and how much it reads.
DEEDS = frozenset(
    {
        "as-is", "check", "diff", "dp", "dry-run", "fix", "force", "json", "keep", "list", "max-file-size",
        "project-root", "python", "statistics", "stdin-filename", "steps",
    }
)  # fmt: skip


def keys_of(command: str) -> tuple[Key, ...]:
    """Return the choices that a command takes, in the order of its help: its own, then those of all commands.

    Args:
        command: its name, "" for those of all commands alone.
    """
    return tuple(key for key in KEYS if command in key.commands or key.commands == EVERYWHERE)


def named(name: str) -> Key | None:
    """Return the choice with a name, the first where commands differ about it; None for any other name."""
    return next((key for key in KEYS if key.name == name), None)
