"""Whether a text has a slash in it."""

from __future__ import annotations

import pytest

from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.slashes import has_slash
from tests.helpers import source_of

IMPORTS = "import os\nimport pathlib\nfrom os.path import join\nfrom pathlib import Path\n"

SURE = {
    "written": "'runs/rooms'",
    "in two strings": "'runs/' 'rooms'",
    "joined": "os.path.join('runs', 'rooms')",
    "joined to what nobody knows": "join('runs', args.name)",
    "joined to nothing": "os.path.join('runs', '')",
    "behind a dot": "os.path.join('.', 'rooms')",
    "of parts in names": "os.path.join(folder, name)",
    "an f-string": "f'{args.folder}/rooms'",
    "an f-string of a path": "f'{os.path.join(folder, name)}_2'",
    "added": "args.folder + '/rooms'",
    "added by the system's": "args.folder + os.sep + 'rooms'",
    "formatted": "'runs/{}'.format(args.name)",
    "formatted by a sign": "'%s/rooms' % args.folder",
    "joined by a slash": "'/'.join([args.folder, args.name])",
    "pathlib": "Path('runs') / 'rooms'",
    "pathlib as a text": "str(Path('runs', 'rooms'))",
    "pathlib in a name": "str(path)",
    "pathlib, posix": "path.as_posix()",
    "the whole path": "os.path.abspath(args.name)",
    "the whole path of pathlib": "str(Path(args.name).resolve())",
    "either": "'runs/a' if args.a else 'runs/b'",
    "by a function": "named(args)",
}
MAYBE = {
    "in a folder that may be none": "os.path.join(args.folder, 'rooms')",
    "in such a path": "Path(args.folder) / 'rooms'",
    "parts in a list": "os.path.join(*parts)",
    "one of two": "'runs/a' if args.a else 'b'",
    "parts that may be one": "'/'.join(parts)",
    "added to later": "grown",
}
NONE = {
    "written": "'rooms'",
    "unknown": "args.name",
    "unknown in a text": "f'rooms_{args.name}'",
    "the last part": "os.path.basename(os.path.join('runs', 'rooms'))",
    "the name of a path": "(Path('runs') / 'rooms').name",
    "taken out": "f\"{'a/b'.replace('/', '_')}\"",
    "a path of one part": "str(Path('rooms'))",
    "a path behind a dot": "str(Path('.') / 'rooms')",
    "divided": "str(1 / 2)",
    "joined by something else": "'_'.join(['a', 'b'])",
    "joined behind nothing": "os.path.join('', 'rooms')",
}
TEXT = f"""{IMPORTS}
folder = "runs"
name = "rooms"
path = Path("runs") / "rooms"
grown = args.name
grown += "/x"

def named(args):
    return os.path.join("runs", args.name)

take(TEXT)
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *[pytest.param(text, True, id=f"sure: {name}") for name, text in SURE.items()],
        *[pytest.param(text, None, id=f"maybe: {name}") for name, text in MAYBE.items()],
        *[pytest.param(text, False, id=f"none: {name}") for name, text in NONE.items()],
    ],
)
def test_a_slash_is_seen_where_it_can_be_known(text: str, expected: bool | None) -> None:
    index = Index(source_of(TEXT.replace("take(TEXT)", f"take({text})")))
    [call] = [call for call in index.calls if index.source.code(call.func) == "take"]
    assert has_slash(call.args[0].value, Flow(index)) is expected
