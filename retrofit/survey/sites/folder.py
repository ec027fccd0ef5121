"""What a script's own files of an earlier round would do to a later one."""

from __future__ import annotations

from dataclasses import dataclass

from retrofit.survey.sites.base import Site


@dataclass(eq=False, kw_only=True)
class NewFolder(Site):
    """Where the script insists that a file or folder of its own is not there yet.

    `node` is what leaves or asserts, or the call that makes the folder; its anchors are then "call" and "function". Or
    the test of an `if` of which one branch alone trains, and that where nothing is there; its anchor is then
    "part".

    Attributes:
        makes: the keyword by which such a call takes a folder that is there, "" for no such call.
        maker: the code of the function that makes it, where that is another than the one called, for `os.mkdir` cannot
            be told to take a folder that is there.
        part: the code of what such a test asks about the folder, "" for anything else.
        denies: whether that holds where nothing is there.
        joined: whether the test asks for something else as well.
    """

    makes: str = ""
    maker: str = ""
    part: str = ""
    denies: bool = False
    joined: bool = False

    _facts = (("makes it", "makes"),)


@dataclass(eq=False, kw_only=True)
class Resumption(Site):
    """A statement by which a checkpoint of the script's own, of an earlier round, would end a later one at once.

    Or the number of an earlier start with which a schedule of the project's own begins, or which a script reads for a
    loop and for a module that counts by itself; it is the anchor "number".

    Attributes:
        alone: the name to which nothing else gives a value, "" where it may be left out.
        among: the name of it where the statement gives others too that are not the checkpoint's, "" where it does not.
        number: the name of such a number, "" for a statement.
        read: whether it has just been read from a checkpoint.
    """

    alone: str = ""
    among: str = ""
    number: str = ""
    read: bool = False
