"""The kinds of entries of the files that say what libraries do: one class each, by its name in a file in words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What some functions, classes or methods do.

    Attributes:
        names: full names of functions and classes; `module.*` is all of a module.
        methods: names of methods, of whatever object.
        example: a script that shows it.
        finds: what is to be found in it, as a Jinja2 expression over `script`, as `apply` sees it, and `codes`, which
            `check` reports.
    """

    names: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    example: str = ""
    finds: str = ""

    @property
    def all_names(self) -> tuple[str, ...]:
        """The full names that it is about."""
        return self.names


@dataclass(frozen=True, kw_only=True)
class Wraps(Entry):
    """Wraps a model for several GPUs.

    Attributes:
        by: `ddp` for what does as DistributedDataParallel, `dp` for what does as DataParallel.
        parameters: its parameters, in order; none for those of PyTorch's own.
        members: what any wrapper has of its own; `.module` has the model's.
        methods: those of this one alone, which call the model's of that name.
    """

    by: str
    parameters: tuple[str, ...] = ()
    members: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ReturnsModule(Entry):
    """Returns a module that it is given, perhaps with something around it.

    Attributes:
        argument: which one, counted from 0.
    """

    argument: int = 0


@dataclass(frozen=True, kw_only=True)
class ReturnsArguments(Entry):
    """Returns the very objects that it is given.

    Attributes:
        arguments: which, by their names, in the order in which it returns and takes them.
    """

    arguments: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ModuleMethod(Entry):
    """Is a method of a module that returns the module itself.

    Attributes:
        moves: whether it puts the module on a device or changes its number format.
    """

    moves: bool = False


@dataclass(frozen=True, kw_only=True)
class Built(Entry):
    """What is built by its class.

    Attributes:
        signatures: the parameters of each class in the order in which they may be given by position.
    """

    signatures: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def all_names(self) -> tuple[str, ...]:
        return (*self.names, *self.signatures)


@dataclass(frozen=True, kw_only=True)
class Optimizer(Built):
    """Builds an optimizer of the parameters that it is given."""


@dataclass(frozen=True, kw_only=True)
class Scheduler(Built):
    """Builds a learning-rate scheduler of the optimizer that it is given.

    With a signature it takes plain values after the optimizer, and is meant to be stepped once an epoch.
    """


@dataclass(frozen=True, kw_only=True)
class Loss(Entry):
    """Builds a loss that has no parameters to train.

    Attributes:
        tensors: the arguments that are tensors, which it holds on to, each with its position, -1 for none.
    """

    tensors: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Backpropagates(Entry):
    """Runs the backward pass: the function itself, or what a class makes, when that is called.

    Attributes:
        loss: the argument that is the loss, with its position.
        optimizer: the argument that is the optimizer which it steps, with its position; none where it steps none.
    """

    loss: Mapping[str, int]
    optimizer: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Framework(Entry):
    """Owns the training loop, or shards the model over the ranks, which no rewriting of a plain loop covers.

    Attributes:
        library: the name by which people know it.
        modules: where it is imported from.
        parts: the functions and classes that own a training or take part in one, all of the modules' where none is
            named: others, such as settings, loggers and callbacks, do nothing by themselves.
        advice: what its user can do.
        owns: whether a script that imports it and has no training of its own leaves that to it.
        engine: whether other parts of it are of use to any script; it counts where the script wraps no model by itself.
        shadows: whether PyTorch has the same by the same name, so that it may be either.
        wraps: whether it is a wrapper of one model, and no more.
        copies: whether it is a copy of the model.
        optional: whether scripts mostly take it by an option, which may be left out by default.
        shares: whether it shares the data out among the ranks by itself.
    """

    library: str
    modules: tuple[str, ...]
    advice: str
    parts: tuple[str, ...] = ()
    owns: bool = False
    engine: bool = False
    shadows: bool = False
    wraps: bool = False
    copies: bool = False
    optional: bool = False
    shares: bool = False

    def has(self, module: str) -> bool:
        """Whether a module, or what is in it, is the library's."""
        return any(f"{module}.".startswith(f"{one}.") for one in self.modules)

    def trains(self, name: str) -> bool:
        """Whether the full name of what is called or extended is that of something that trains."""
        return self.has(name) and (not self.parts or not set(self.parts).isdisjoint(name.split(".")))


@dataclass(frozen=True, kw_only=True)
class AveragesModel(Entry):
    """Keeps a running average of a model, in a copy that it makes at once."""


@dataclass(frozen=True, kw_only=True)
class Compiles(Entry):
    """Compiles a model."""


@dataclass(frozen=True, kw_only=True)
class Recomputes(Entry):
    """Computes activations again in the backward pass."""


@dataclass(frozen=True, kw_only=True)
class SumsUp(Entry):
    """Runs a model to tell its layers or what they cost, by hooks that know torch's modules, and leaves it as it is."""


@dataclass(frozen=True, kw_only=True)
class DataLoader(Entry):
    """Loads batches, as PyTorch's DataLoader does."""


@dataclass(frozen=True, kw_only=True)
class Sampler(Entry):
    """Chooses the samples of a data loader.

    Attributes:
        shares: whether it shares them out among the ranks, or else goes over all of them.
    """

    shares: bool = False


@dataclass(frozen=True, kw_only=True)
class GoesOver(Entry):
    """Goes over what it is given first, item by item, as a progress bar does.

    Attributes:
        count: its attribute that says how far it is, "" for none.
        advance: the method that moves it on by hand.
    """

    count: str = ""
    advance: str = ""


@dataclass(frozen=True, kw_only=True)
class Counts(Entry):
    """Goes over numbers, as `range` does."""


@dataclass(frozen=True, kw_only=True)
class Endless(Entry):
    """Goes on without an end."""


@dataclass(frozen=True, kw_only=True)
class Collective(Entry):
    """Waits for all ranks of the group.

    Attributes:
        result: the argument that holds the result, with its position; none where none does.
        rank: the argument that names the one rank which has the result, with its position; none where all have it.
    """

    result: Mapping[str, int] = field(default_factory=dict)
    rank: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CountsProcesses(Entry):
    """Returns the number of processes, or of GPUs."""


@dataclass(frozen=True, kw_only=True)
class StartsProcesses(Entry):
    """Starts processes that run a function.

    Attributes:
        how: `spawn` for what takes a function and its arguments behind the number of the process, as
            `torch.multiprocessing.spawn` does; `process` for what takes `target` and `args`; `launch` for any other.
    """

    how: str


@dataclass(frozen=True, kw_only=True)
class SendsAway(Entry):
    """Gives what it is given to another process, or to a function that it runs there."""


@dataclass(frozen=True, kw_only=True)
class RunsTrials(Entry):
    """Runs a function that it is given again and again, with other settings each time.

    Attributes:
        method: the method of what it makes that does so, where it does not itself.
    """

    method: str = ""


@dataclass(frozen=True, kw_only=True)
class RunsDecorated(Entry):
    """Makes an object that runs, once, a function which a method of it decorates.

    Attributes:
        decorators: these methods.
    """

    decorators: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ReadsCommandLine(Entry):
    """Reads the command line as a whole, and would refuse an option that it does not know; it runs what it is given.

    Attributes:
        settings: the argument that names the file of settings that it reads, where it reads one.
    """

    settings: str = ""


@dataclass(frozen=True, kw_only=True)
class AddsOption(Entry):
    """Adds an option to the command line, which is a parameter of the function that it decorates, or read by its name.

    So is what a parameter of a function has for its default that is run with what the command line says.

    Attributes:
        default: the argument that is its default, with its position, -1 for none.
        flag: the argument by which it is a flag, off by default, "" for none.
        holder: the full name of what has it as an attribute then, "" for none.
        required: whether it must be given where it has no default.
    """

    default: Mapping[str, int]
    flag: str = ""
    holder: str = ""
    required: bool = False


@dataclass(frozen=True, kw_only=True)
class MakesConfigured(Entry):
    """Makes an object of the class that files of settings name by `_target_`; it is given the settings first."""


@dataclass(frozen=True, kw_only=True)
class TellsTime(Entry):
    """Tells the time."""


@dataclass(frozen=True, kw_only=True)
class Fresh(Entry):
    """Is another value at each start of a program, such as a name made of the time.

    Attributes:
        attribute: the attribute of it that is so, where it is no value itself.
    """

    attribute: str = ""


@dataclass(frozen=True, kw_only=True)
class AsksForPath(Entry):
    """Asks whether a file or folder is there.

    Attributes:
        file: whether it asks for a file alone.
    """

    file: bool = False


@dataclass(frozen=True, kw_only=True)
class ListsFiles(Entry):
    """Gives the names of the files that are there."""


@dataclass(frozen=True, kw_only=True)
class WritesPath(Entry):
    """Writes a file or makes a folder whose path it is given.

    Attributes:
        file: whether it writes a file.
        mode: the argument by which it does, as a letter of it says, with its position; none where it always does.
    """

    file: bool = False
    mode: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class LoadsModel(Entry):
    """Is a method of a class that builds a model with the weights of a file, by no `load_state_dict` of a module.

    The names are those of classes by which it builds one of whatever class the file is of.

    Attributes:
        plain: base classes whose method of that name does load them so.
        weights: the argument that has the weights, where they are not to be those of the path; "" for none.
    """

    plain: tuple[str, ...] = ()
    weights: str = ""


@dataclass(frozen=True, kw_only=True)
class ChangesLayers(Entry):
    """Is a method by which a model gets layers of another size, or other ones."""


@dataclass(frozen=True, kw_only=True)
class MakesFolder(Entry):
    """Makes a folder, and fails where it is there, unless it is told to take that.

    Attributes:
        path: the argument that is the folder's path, with its position; none where the method's object is it.
        takes: the argument by which it takes a folder that is there, with its position.
        instead: the last name of a function beside it that has that argument, where it has none itself.
    """

    path: Mapping[str, int]
    takes: Mapping[str, int]
    instead: str = ""


@dataclass(frozen=True, kw_only=True)
class Seeds(Entry):
    """Seeds random numbers.

    Attributes:
        torch: whether it seeds those of PyTorch, from which augmentation, dropout and the loader's workers draw.
    """

    torch: bool = False


@dataclass(frozen=True, kw_only=True)
class MakesTensor(Entry):
    """Makes a tensor, on the CPU where it is not told otherwise."""


@dataclass(frozen=True, kw_only=True)
class MakesArray(Entry):
    """Makes an array of what it is given first, item by item.

    Attributes:
        sized: whether that is how many items it has.
    """

    sized: bool = False


@dataclass(frozen=True, kw_only=True)
class Metric(Entry):
    """Makes an object that computes a metric, which is no number itself."""


@dataclass(frozen=True, kw_only=True)
class ReturnsText(Entry):
    """Returns a text, such as the path of a file.

    Attributes:
        methods: those of what is made by it that return one, in its place.
    """


@dataclass(frozen=True, kw_only=True)
class ReturnsNumber(Entry):
    """Returns one number.

    Attributes:
        several: the arguments by which it returns several, each with the values by which it does.
    """

    several: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Reduces(Entry):
    """Makes one number of all that it is given, or one of each row or column where it is given an axis.

    Attributes:
        axis: the argument that is the axis, with its position.
    """

    axis: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Logs(Entry):
    """Tells its user a number, as a method or function by that name does; `log*` is all whose name begins so."""


def _kind(cls: type[Entry]) -> str:
    """Return the word by which files name a kind of entry: `returns-module`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()


#: The kinds of entries, by the words for them.
KINDS: Mapping[str, type[Entry]] = {
    _kind(one): one
    for one in (
        Wraps, ReturnsModule, ReturnsArguments, ModuleMethod, Optimizer, Scheduler, Loss, Backpropagates, Framework,
        AveragesModel, Compiles, Recomputes, SumsUp, DataLoader, Sampler, GoesOver, Counts, Endless, Collective,
        CountsProcesses, StartsProcesses, SendsAway, RunsTrials, RunsDecorated, ReadsCommandLine, AddsOption,
        MakesConfigured, TellsTime, Fresh, AsksForPath, ListsFiles, WritesPath, LoadsModel, ChangesLayers, MakesFolder,
        Seeds, MakesTensor, MakesArray, Metric, Reduces, ReturnsNumber, ReturnsText, Logs,
    )
}  # fmt: skip
