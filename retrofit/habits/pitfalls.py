"""Find what dendrites make wrong: whole names of parameters, kept axes, and rounds that go by their exit status."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from retrofit.habits.file import TrainingFile
from retrofit.habits.library import full_name, guarded, perforating
from retrofit.habits.names import literal
from retrofit.habits.sites import Call
from retrofit.survey.nodes import names_in
from retrofit.survey.sites.base import Site

#: A parameter's whole name, of which the library's own differs: `head.weight` is `head.main_module.weight`.
_WHOLE = re.compile(r"(\w+\.)+(weight|bias)")
_DIMENSIONS = ("pc.set_output_dimensions", "set_this_output_dimensions")
#: The option by which a round goes on with what the one before it has left, and what tells that there is nothing left.
_GOES_ON, TELLS = "pai_load_folder", re.compile(r"training_complete|switch_")
_STARTS = ("os.system", "subprocess.run", "subprocess.call", "subprocess.check_call", "subprocess.Popen")


@dataclass(eq=False, kw_only=True)
class WholeName(Site):
    """A comparison of a parameter's name with whole names; `node` is it.

    Attributes:
        name: the first of these.
    """

    name: str


@dataclass(eq=False, kw_only=True)
class OutputDimension(Call):
    """A call that says in which axis a layer's neurons are."""

    @cached_property
    def axes(self) -> list[str | int | None]:
        """What is written for each axis, as far as that is a number; nothing where it is no list."""
        node = self.call.args[0].value if self.call.args else None
        value = None if node is None else self.habits.value_of(node)
        return [literal(self.habits, one.value) for one in value.elements] if isinstance(value, cst.List) else []


@dataclass(eq=False, kw_only=True)
class ComingName(Call):
    """A call of a function that no release of the library has yet.

    Attributes:
        latest: the newest release.
        without: what a script does without it.
    """

    latest: str
    without: str


@dataclass(eq=False, kw_only=True)
class RestartLoop(Call):
    """A call within a `while` loop that starts a training which goes on with what the last round has left."""


def find_whole_names(file: TrainingFile) -> Iterator[WholeName]:
    """Yield where names of a perforated model's parameters are compared with names that the script has for them."""
    if not perforating(file) or file.imports("pai_distributed"):  # by whose help they keep their names
        return
    walked = {id(over): target for over, target in _walks(file)}
    for node in file.index.comparisons:
        targets = [walked[id(part)] for part in file.index.ancestors(node) if id(part) in walked]
        for one in node.comparisons if len(node.comparisons) == 1 else ():
            names = [*_texts(file, node.left), *_texts(file, one.comparator)]
            whole = [name for name in names if _WHOLE.fullmatch(name)]
            exact = isinstance(one.operator, (cst.Equal, cst.NotEqual, cst.In, cst.NotIn))
            if whole and exact and set(names_in(node)).intersection(targets):
                yield WholeName(node=node, index=file.index, name=whole[0])


def _walks(file: TrainingFile) -> Iterator[tuple[cst.CSTNode, str]]:
    """Yield the loops over a model's named parameters with the name that a parameter's name has in them."""
    perforated = {one for call in perforating(file) for one in file.flow.origins(call, file.index.scope_of(call))}
    for call, model in file.index.method_calls("named_parameters"):
        over = file.index.parents.get(call)
        target = over.target if isinstance(over, (cst.For, cst.CompFor)) else None
        first = target.elements[0].value if isinstance(target, (cst.Tuple, cst.List)) else None
        if isinstance(first, cst.Name) and perforated.intersection(file.flow.origins(model, file.index.scope_of(call))):
            assert over is not None
            whole = file.index.parents.get(over) if isinstance(over, cst.CompFor) else over
            yield whole or over, first.value


def _texts(file: TrainingFile, node: cst.BaseExpression) -> list[str]:
    """Return the texts that an expression, or what it lists, is."""
    value = file.value_of(node)
    listed = [one.value for one in value.elements] if isinstance(value, (cst.List, cst.Tuple, cst.Set)) else [value]
    return [text for one in listed if isinstance(text := literal(file, one), str)]


def find_output_dimensions(file: TrainingFile) -> list[OutputDimension]:
    """Return the calls that say in which axis a layer's neurons are."""
    calls = [call for call in file.index.calls if full_name(file, call.func).endswith(_DIMENSIONS[0])]
    calls += [call for call, _ in file.index.method_calls(_DIMENSIONS[1])] if file.perforated else []
    return [OutputDimension(node=call, index=file.index, habits=file) for call in calls]


def find_coming_names(file: TrainingFile) -> Iterator[ComingName]:
    """Yield the calls of functions that no release of the library has yet."""
    history = file.history
    for call in file.index.calls if history is not None and file.perforated else ():
        assert history is not None
        full = full_name(file, call.func)
        if full in history.coming and not guarded(file, file.index.statement(call), call, full.rpartition(".")[2]):
            without = history.coming[full]
            yield ComingName(node=call, index=file.index, habits=file, latest=history.latest, without=without)


def find_restart_loops(file: TrainingFile) -> Iterator[RestartLoop]:
    """Yield the starts of round after round by code that looks for nothing but their exit status."""
    texts = [text.value for text in file.index.nodes_of(cst.SimpleString)]
    if not any(_GOES_ON in text for text in texts) or any(TELLS.search(text) for text in texts):
        return
    for call in file.calls(*_STARTS):
        if any(isinstance(part, cst.While) for part in file.index.ancestors(call)):
            yield RestartLoop(node=call, index=file.index, habits=file)
