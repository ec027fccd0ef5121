"""What a script's own files of an earlier round would do to a later one."""

from __future__ import annotations

from dataclasses import dataclass

from retrofit.survey.sites.base import Site


@dataclass(eq=False, kw_only=True)
class NewFolder(Site):
    """A call that makes a folder and fails where it is there; its anchors are "call" and "function".

    Attributes:
        maker: the code of the function that makes it, where that is another than the one called, for `os.mkdir` cannot
            be told to take a folder that is there.
    """

    maker: str = ""


@dataclass(eq=False, kw_only=True)
class Resumption(Site):
    """A statement by which a checkpoint of the script's own, of an earlier round, would end a later one at once."""
