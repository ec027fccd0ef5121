"""Command lines, and what tells a process its number."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from retrofit.survey.sites.base import Site


@dataclass(eq=False, kw_only=True)
class Parser(Site):
    """An argparse parser; `node` is the statement after which arguments can be added.

    Attributes:
        target: the parser's variable.
        options: the option strings that it has.
        reading: what reads the command line by it.
        alone: whether no other one reads all of that, and would not know the options that are added to this one.
        strict: whether it ends the script, in any run, at what it does not know of all that the user gave.
        own: whether the entry script reads the command line by it.
        early: whether another file than the entry script reads the command line by it as it is imported.
    """

    target: str
    options: frozenset[str]
    reading: list[cst.Call]
    alone: bool = True
    strict: bool = False
    own: bool = False
    early: bool = False

    @property
    def takes_number(self) -> bool:
        """Whether a launcher may tell a process its number by an option of it."""
        return not self.options.isdisjoint({"--local_rank", "--local-rank"})

    @property
    def facts(self) -> dict[str, object]:
        return {"parser": self.target, "options": len(self.options)}


@dataclass(eq=False, kw_only=True)
class LocalRank(Site):
    """The spelling of an option by which a launcher tells each process its number on its machine.

    Attributes:
        hyphened: whether the project has it as `--local-rank`.
    """

    hyphened: bool

    _facts = (("option", "code"),)


@dataclass(eq=False, kw_only=True)
class ProcessNumber(Site):
    """What alone tells a process its number, the number of processes or its GPU, and is not torchrun's environment.

    Attributes:
        source: "option" for one of the command line, "environment" for a variable that is not torchrun's, "MPI",
            "dask", "job" for what asks for a scheduler's variables alone, "backend" for a process group's of MPI,
            "fixed" for a number that is written down, "settings" for one that a file of settings says for all
            processes alike, "device" for that of a GPU that all take, "shared" where its backend lets them, or
            "alone" for what ends a process that sees several GPUs.
        name: the option, or the code.
        variable: the environment variable in which torchrun says it.
    """

    source: str
    name: str
    variable: str

    _facts = (("source", "source"), ("name", "name"))
