"""Find where the processes of a training get their numbers from what torchrun does not give them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import libcst as cst

from retrofit.survey.arguments import PARSE_METHODS, read_as, spellings
from retrofit.survey.conditions import never_runs
from retrofit.survey.defaults import SEVERAL, Defaults
from retrofit.survey.displays import item_of
from retrofit.survey.flow import Flow
from retrofit.survey.nodes import argument, dotted, exits, last_of, names_in, nodes_in
from retrofit.survey.origins import Origin
from retrofit.survey.ranks import is_rank
from retrofit.survey.scopes import Binding, Scope, Statement
from retrofit.survey.sites.argument import ProcessNumber
from retrofit.survey.sites.wrapper import Wrapper

#: What a communicator of mpi4py says, and by which variable torchrun says it.
_MPI = {"Get_rank": "RANK", "rank": "RANK", "Get_size": "WORLD_SIZE", "size": "WORLD_SIZE"}
_ENVIRONMENT = ("os.environ", "os.getenv")
_SHOWN = ("['CUDA_VISIBLE_DEVICES']", '["CUDA_VISIBLE_DEVICES"]')
#: What torchrun, or the scheduler of a job, gives a process.
_SCHEDULER = re.compile(r"(SLURM|OMPI|PMIX?|MPI|MV2|LSB|JSM|PALS)_")
_GIVEN = re.compile(rf"(GROUP_|ROLE_|LOCAL_)?(RANK|WORLD_SIZE)$|TORCH\w*_|{_SCHEDULER.pattern}")
#: What the helper makes torchrun's numbers of, where a scheduler's job has it.
_TOLD_IN_JOB = ("SLURM_", "OMPI_")
#: Functions whose last argument tells a GPU, and a GPU that is written down.
_CHOOSING = ("torch.cuda.set_device", "torch.device")
_GPU = re.compile(r"[\"']?(?:cuda:)?(\d+)[\"']?")
#: What gives a variable of the environment its value.
_SET = re.compile(r"(?:os\.)?environ\[[\"'](\w+)[\"']\]")


class Numbers:
    """Knows what tells a process its number where it begins the process group.

    Args:
        flow: of the whole project.
    """

    def __init__(self, flow: Flow) -> None:
        self._flow, self._index = flow, flow.index
        #: The options of the command line by the names under which they are read.
        self._options = {name: call for call, _ in self._index.method_calls("add_argument") for name in read_as(call)}
        self._settings = self._index.settings.values.keys() - self._options.keys()
        self._options.pop("local_rank", None)  # which torch.distributed.launch gives
        names = [*self._index.attributes, *self._index.nodes_of(cst.Name)]
        #: The functions that ask the environment for something, each with where it does.
        self._asking = defaultdict[Scope, list[cst.CSTNode]](list)
        for node in names:
            if self._index.qualified(node) in _ENVIRONMENT:
                self._asking[self._index.scope_of(node)].append(node)

    def found(self, wrappers: Sequence[Wrapper]) -> list[ProcessNumber]:
        """Return what alone tells a process its number, then what tells how many there are, and which GPU it has.

        Args:
            wrappers: where the model is wrapped.
        """
        found = self._set_by_files(wrappers) or [*self._numbers(), *self._shared_device()]
        places = [(one.node, one.name) for one in found]
        return [one for number, one in enumerate(found) if places[number] not in places[:number]]

    def _numbers(self) -> list[ProcessNumber]:
        """Return what the process groups are told, and which options tell a GPU with them.

        Nothing where any group is begun by the environment, or where it cannot be told by what.
        """
        begun = self._index.calls_to("torch.distributed.init_process_group")
        begun = [call for call in begun if not never_runs(self._index.statement(call), self._flow)]
        backends = [self._by_mpi(call) for call in begun]
        if backends and None not in backends:
            return [one for one in backends[:1] if one is not None]
        ranks = [found for call in begun for found in self._given(call, "RANK", "rank", 4)]
        if not ranks or None in ranks:
            return []
        counts = [found for call in begun for found in self._given(call, "WORLD_SIZE", "world_size", 3)]
        chosen = [call.args[0].value for call in self._index.calls_to("torch.cuda.set_device") if call.args]
        told = map(self._device_told, [*self._listed(), *chosen])
        devices = [one for one in told if one is not None and one.source == "option"]
        return [*(one for one in (*ranks, *counts) if one is not None), *devices]

    def _set_by_files(self, wrappers: Sequence[Wrapper]) -> list[ProcessNumber]:
        """Return the setting that alone tells a process its number, as no code sets it, and by which none is wrapped.

        A file of settings says it for all processes alike: that there is one alone.
        """
        defaults, told = Defaults(self._index, self._flow), list[ProcessNumber]()
        for one in (wrapper for wrapper in wrappers if "ddp" in wrapper.kinds):
            found = [set_by for test, _ in defaults.branches(one.node) for set_by in self._settings_in(test)]
            if not found:
                return []
            told += [self._site(found[0], "settings", "LOCAL_RANK")]
        return told[:1]

    def _settings_in(self, test: cst.BaseExpression) -> list[cst.Attribute]:
        """Return the settings by the name of a process's number of which a condition is made."""
        waiting: list[cst.BaseExpression] = [test]
        for one in waiting:
            read = [part for part in nodes_in(one) if isinstance(part, (cst.Name, cst.Attribute))]
            made = [origin.node for part in read for origin in self._flow.origins(part, self._index.scope_of(part))]
            waiting += [node for node in dict.fromkeys(made) if node in self._index.parents and node not in waiting]
        found = [one for one in waiting if isinstance(one, cst.Attribute) and one.attr.value in self._settings]
        return [one for one in found if is_rank(self._flow, one)]

    def _by_mpi(self, call: cst.Call) -> ProcessNumber | None:
        """Return the backend of a process group that can only be MPI's, which knows no processes but its own."""
        made = self._backends(call)
        return self._site(made[0], "backend", "") if {_text(one) for one in made} == {"mpi"} else None

    def _backends(self, call: cst.Call) -> list[cst.BaseExpression]:
        """Return what names the backend of a process group, nothing where torch chooses it."""
        value = argument(call, "backend", 0)
        return [one.node for one in self._flow.origins(value, self._index.scope_of(call))] if value is not None else []

    def _by_nccl(self, call: cst.Call) -> bool:
        """Whether the backend of a process group may be NCCL, as far as an option's default tells."""
        made = self._backends(call)
        options = [self._options.get(one.attr.value) if isinstance(one, cst.Attribute) else None for one in made]
        named = [argument(by, "default") if by else one for by, one in zip(options, made, strict=True)]
        return not named or any(_text(one) == "" or "nccl" in _text(one) for one in named)

    def _given(self, call: cst.Call, variable: str, name: str, position: int) -> Iterator[ProcessNumber | None]:
        """Yield what a process group is given for a variable, or what that is set to before; None for what is fine."""
        value = argument(call, name, position)
        if value is not None:
            yield self._told(value, self._index.scope_of(call), variable)
            return
        begun = self._index.statement(call)
        written = [b for b in self._index.items if (match := _SET.fullmatch(b.target)) and match[1] == variable]
        written = [b for b in written if b.statement.scope is not begun.scope or b.statement.order < begun.order]
        written = [b for b in written if not never_runs(b.statement, self._flow)]
        for one in written:
            asked = any(isinstance(part.node, cst.If) and "environ" in _words(part) for part in one.statement.path)
            yield None if asked or one.value is None else self._told(one.value, one.statement.scope, variable)
        if not written:
            yield None

    def _shared_device(self) -> list[ProcessNumber]:
        """Return the GPU that every process takes, as all that is wrapped is on one by its number, wherever it is told.

        Before it comes what lets a process see no more than one. Where the script itself says which GPUs a process
        sees, number 0 may be another one for each, and only NCCL refuses a GPU that several have.
        """
        shown = [b.value for b in self._index.items if b.target.endswith(_SHOWN)]
        begins = self._index.calls_to("torch.distributed.init_process_group")
        if not begins or not all(isinstance(value, cst.SimpleString) for value in shown):
            return []
        listed, alone = self._listed(), [] if shown else self._sees_one()
        taken = {_device(one) for one in map(self._device_told, listed)} if not alone else {"0"}
        if not taken or None in taken:
            return []
        source = "device" if alone or any(map(self._by_nccl, begins)) else "shared"
        told = map(self._device_told, [*listed, *self._chosen()])
        return alone + [replace(one, source=source) for one in told if one is not None and _device(one) in taken]

    def _sees_one(self) -> list[ProcessNumber]:
        """Return what ends each process that sees several GPUs, but none that sees one: `assert gpus == 1`."""
        if not self._index.calls_to("torch.cuda.device_count"):
            return []
        ending = [(one.test, True) for one in self._index.nodes_of(cst.If) if _ends(one)]
        ending += [(one.test, False) for one in self._index.nodes_of(cst.Assert)]
        ways = [(Defaults(self._index, self._flow, gpus, options=False), gpus == SEVERAL) for gpus in (SEVERAL, (1,))]
        return [
            self._site(test, "alone", "LOCAL_RANK")
            for test, holds in ending
            if all({bool(one) for one in known.values(test)} == {holds is several} for known, several in ways)
            and ways[0][0].run(test)
        ]

    def other_gpu(self) -> ProcessNumber | None:
        """Return where the first process takes another GPU than the first, by its number; None for no such.

        Nor for one where the script counts the GPUs as well, to wait for as many processes, say.
        """
        if self._index.calls_to("torch.cuda.device_count"):
            return None
        given = [(arg.keyword, arg.value) for call in self._index.calls for arg in call.args]
        named = [value for keyword, value in given if keyword is not None and keyword.value == "device"]
        for node in (*self._chosen(), *named):
            statement = self._index.statement(node)
            if self._flow.uncalled(statement) is None and not never_runs(statement, self._flow):
                sites = [self._site(one, "device", "") for one in self._of_first(node, statement.scope)]
                found = next((site for site in sites if (number := _GPU.fullmatch(site.name)) and int(number[1])), None)
                if found is not None:
                    return found
        return None

    def _of_first(self, node: cst.BaseExpression, scope: Scope) -> Iterator[cst.BaseExpression]:
        """Yield what a device may be for the first process: of a list of them the first, of an option its default."""
        for one in (origin.node for origin in self._flow.origins(node, scope)):
            option = self._options.get(one.attr.value) if isinstance(one, cst.Attribute) else None
            listed = self._flow.origins(one.value, scope) if isinstance(one, cst.Subscript) else ()
            made = [argument(option, "default")] if option else [item_of(held.node, 0) for held in listed] or [one]
            yield from (value for value in made if value is not None)

    def _chosen(self) -> list[cst.BaseExpression]:
        """Return what tells the GPU of a process, or of what is moved."""
        chosen = [call.args[-1].value for call in self._index.calls_to(*_CHOOSING) if call.args]
        return chosen + [call.args[0].value for call, _ in self._index.method_calls("cuda", "to") if call.args]

    def _device_told(self, node: cst.BaseExpression) -> ProcessNumber | None:
        return self._told(node, self._index.scope_of(node), "LOCAL_RANK")

    def _listed(self) -> list[cst.BaseExpression]:
        """Return the first device of each DistributedDataParallel that is given some."""
        wrapping = self._index.calls_to(*sorted(self._index.knowledge.wrappers["ddp"]))
        lists = [argument(call, "device_ids", 1) for call in wrapping]
        return [one.elements[0].value for one in lists if isinstance(one, cst.List) and one.elements]

    def _told(
        self, node: cst.BaseExpression, scope: Scope, variable: str, seen: frozenset[cst.CSTNode] = frozenset()
    ) -> ProcessNumber | None:
        """Return what alone tells a number, None where torchrun's environment may, or something that is not known."""
        node = _bare(node)
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo):
            return self._told(node.left, scope, variable, seen)
        if isinstance(node, (cst.Integer, cst.SimpleString)):
            return self._site(node, "fixed", variable)
        asking, others = self._asks(node, scope)
        if asking and others:
            return None
        if asking:
            called = [(function, item) for one, item in asking if (function := self._flow.called(one)) is not None]
            variables = {name for function, item in called for name in self._asked_by(function, item)}
            source = "job" if any(one.startswith(_TOLD_IN_JOB) for one in variables) else "environment"
            (call, item), *_ = asking
            told = self._site(call, source, variable)
            told = told if item is None else replace(told, name=f"{told.name}[{item}]")
            return told if self._by_scheduler(variables) else None
        if self._is_strange(node):
            return self._site(node, "environment", variable)
        origins = [origin.node for origin in self._flow.origins(node, scope)]
        made = [one for one in origins if not self._of_group(one)]
        given = variable == "LOCAL_RANK" and len(made) < len(origins)  # the rest is for a run without a process group
        if node in seen or not origins or given:
            return None
        if made == [node] or not made:
            inside = self._flow.inside(Origin(node))
            if not inside:
                return self._by_itself(node, scope, variable)
            made = [origin.node for origin in inside]
        found = [self._told(one, self._index.scope_of(one), variable, seen | {node}) for one in made]
        return None if None in found else found[0]

    def _asks(self, node: cst.BaseExpression, scope: Scope) -> tuple[list[tuple[cst.Call, int | None]], bool]:
        """Return the calls, of which a value may be, of functions that ask the environment; and whether of others.

        Each is given with the item of what it returns that is meant, None for all of that.
        """
        name = dotted(node)
        sources = self._flow.sources(self._flow.variable(name, scope)) if name else []
        values = [(source.value, source.item) for source in sources] or [(node, None)]
        calls = [(one, item) for one, item in values if isinstance(one, cst.Call)]
        asking = [(one, item) for one, item in calls if self._flow.called(one) in self._asking]
        others = len(values) - len(asking) - sum(isinstance(one, cst.Integer) for one, _ in values)
        return asking, others > 0

    def _asked_by(self, function: Scope, item: int | None) -> set[str]:
        """Return the variables out of which alone a function makes what it returns, "" among them if not."""
        found = {name for asked in self._asking[function] for name in self._names(asked)}
        returned = [one if item is None else item_of(one, item) for one in self._index.returned(function)]
        if None in returned:
            return {""}
        returned = [part for one in returned if one is not None for part in _parts(_bare(one))]
        asked = {around for one in self._asking[function] for around in self._index.ancestors(one)}
        return found if all(isinstance(one, cst.Integer) or one in asked for one in returned) else {""}

    def _names(self, asked: cst.CSTNode) -> set[str]:
        """Return the variables for which the environment is asked where it is named, "" for what is not known."""
        around = self._index.parents[asked]
        if isinstance(around, (cst.Attribute, cst.ComparisonTarget)):  # `os.environ.get`, `in os.environ`
            around = self._index.parents[around]
        key = argument(around, "key", 0) if isinstance(around, cst.Call) else getattr(around, "left", None)
        key = getattr(around.slice[0].slice, "value", None) if isinstance(around, cst.Subscript) else key
        bound = self._index.bound([dotted(key) or ""], self._index.scope_of(asked))
        walked = [b.statement.node.iter if isinstance(b.statement.node, cst.For) else None for b in bound]
        listed = [list(one.elements) if isinstance(one, (cst.Tuple, cst.List)) else [None] for one in walked]
        keys = [getattr(one, "value", None) for part in listed for one in part] if bound else [key]
        return {str(one.evaluated_value) if isinstance(one, cst.SimpleString) else "" for one in keys}

    def _by_scheduler(self, variables: set[str]) -> bool:
        """Whether a job's scheduler sets all of some variables, and torchrun or the script none of them."""
        written = {match[1] for b in self._index.items if (match := _SET.fullmatch(b.target))}
        return bool(variables) and written.isdisjoint(variables) and all(map(_SCHEDULER.match, variables))

    def _is_strange(self, node: cst.BaseExpression) -> bool:
        """Whether a value is an environment variable that neither torchrun nor a scheduler sets, nor the script."""
        name = self._index.environment_variable(node)
        default = node.args[1].value if isinstance(node, cst.Call) and len(node.args) > 1 else None
        own = re.compile(rf".*\[[\"']{re.escape(name)}[\"']\]")
        written = any(own.fullmatch(b.target) for b in self._index.items)
        fixed = default is None or isinstance(default, (cst.Integer, cst.SimpleString))
        return bool(name) and fixed and not written and _GIVEN.match(name) is None

    def _by_itself(self, node: cst.BaseExpression, scope: Scope, variable: str) -> ProcessNumber | None:
        """Return what tells a number where nothing of the project gives it a value."""
        called = node.func if isinstance(node, cst.Call) else node
        if not isinstance(called, cst.Attribute):
            return None
        name, holder = called.attr.value, called.value
        made = [one.node for one in self._flow.origins(holder, scope)]
        packages = {self._index.qualified(o.func if isinstance(o, cst.Call) else o).partition(".")[0] for o in made}
        if packages == {"mpi4py"} and name in _MPI:
            return self._site(node, "MPI", _MPI[name])
        if packages == {"dask"}:
            return self._site(node, "dask", variable)
        if called is node and name in self._options and _by_hand(self._options[name]) and not self._changed(name):
            return self._site(self._options[name], "option", variable)
        return None

    def _changed(self, option: str) -> bool:
        """Whether an option has another value before the process group tells it.

        What an object of a class of the project has by its name is none, as it would have been followed, unless it is
        the one that the options are put into.
        """
        told = [b for b in self._index.bindings if b.target.rpartition(".")[2] == option and "." in b.target]
        given = [argument(call, "namespace", 1) for call, _ in self._index.method_calls(*PARSE_METHODS)]
        made = [o.node for one in given if one is not None for o in self._flow.origins(one, self._index.scope_of(one))]
        spaces = {self._flow.class_made(one) for one in made} - {None}

        def counts(b: Binding) -> bool:
            other = self._flow.member(b.target, b.statement.scope)[1] == f"self.{option}"
            return not other or b.statement.scope.enclosing_class in spaces

        return any(b.value is None or not self._of_group(b.value) for b in filter(counts, told))

    def _of_group(self, node: cst.BaseExpression) -> bool:
        """Whether a process group tells a number, which it was given before."""
        return isinstance(node, cst.Call) and self._index.qualified(node.func).startswith("torch.distributed.")

    def _site(self, node: cst.CSTNode, source: str, variable: str) -> ProcessNumber:
        named = spellings(node) if isinstance(node, cst.Call) and source == "option" else {}
        name = max(map(str, named), key=len, default=self._index.source.read(node))
        return ProcessNumber(node=node, index=self._index, source=source, name=name, variable=variable)


def _text(node: cst.BaseExpression | None) -> str:
    """Return a text that is written down, in small letters, "" for anything else."""
    return str(node.evaluated_value).lower() if isinstance(node, cst.SimpleString) else ""


def _parts(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return what an expression may be by a condition, or, of what is asked for, for want of it."""
    if isinstance(node, cst.IfExp):
        return [part for way in (node.body, node.orelse) for part in _parts(_bare(way))]
    default = argument(node, "default", 1) if isinstance(node, cst.Call) else None
    return [node] if default is None else [node, _bare(default)]


def _bare(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return what an expression makes a number or a text of."""
    while isinstance(node, cst.Call) and dotted(node.func) in ("int", "str") and len(node.args) == 1:
        node = node.args[0].value
    return node


def _device(told: ProcessNumber | None) -> str | None:
    """Return the number of a GPU that is written down, None for any other."""
    written = _GPU.fullmatch(told.name) if told is not None and told.source == "fixed" else None
    return written and written[1]


def _ends(node: cst.If) -> bool:
    """Whether an `if` ends the program."""
    last = last_of(node.body)
    return isinstance(last, cst.Raise) or exits(last)


def _words(statement: Statement) -> set[str]:
    """Return the words of what an `if` asks for."""
    test = statement.node.test if isinstance(statement.node, cst.If) else None
    return {word for name in names_in(test) for word in name.split(".")} if test is not None else set()


def _by_hand(option: cst.Call) -> bool:
    """Whether an option has a number from the command line alone: one must be given, or it is written down."""
    required, default = argument(option, "required"), argument(option, "default")
    return dotted(required) == "True" or isinstance(default, (cst.Integer, cst.SimpleString))
