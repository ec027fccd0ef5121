"""Make the picture of the README: `python -m docs.picture` draws images/retrofit.txt as images/retrofit.svg.

The text is what was printed when a script was rewritten and trained, shortened where a line says `...`.
"""

from __future__ import annotations

import io
import re
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

IMAGES = Path(__file__).resolve().parent / "images"
WIDTH = 100

#: What makes a line's colour, the first that matches; a group is coloured alone.
_STYLES = (
    (r"\$ .*", "bold white"),
    (r"(PAI\d+) .*", "bold yellow"),
    (r"\+.*", "green"),
    (r"-.*", "red"),
    (r"@@.*|\.\.\.", "bright_black"),
    (r"(train_distributed|\[pai_distributed\]):? .*", "cyan"),
    (r"(ok) .*", "green"),
)


def _colour(name: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(name)
    return red, green, blue


#: On a dark ground, which stands out on a page of either kind.
_THEME = TerminalTheme(
    background=(22, 27, 34),
    foreground=(201, 209, 217),
    normal=[_colour(name) for name in ["484f58", "ff7b72", "56d364", "e3b341", "79c0ff", "d2a8ff", "56d4dd", "c9d1d9"]],
    bright=[_colour(name) for name in ["8b949e", "ffa6a0", "7ee787", "f2cc60", "a5d6ff", "e2c5ff", "b3f0ff", "ffffff"]],
)
#: As rich's own, but for its fonts, which come from elsewhere.
_FORMAT = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="retrofit at work">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-family: system-ui, sans-serif; font-size: 18px; font-weight: bold; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def draw(record: str) -> str:
    """Return a picture of what was printed.

    Args:
        record: the lines; longer ones than `WIDTH` are cut off.

    Returns:
        The picture as SVG, which needs nothing from elsewhere.
    """
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in record.splitlines():
        text = Text(line)
        for pattern, style in _STYLES:
            match = re.fullmatch(pattern, line)
            if match:
                text.stylize(style, *match.span(match.lastindex or 0))
                break
        console.print(text, no_wrap=True, overflow="ellipsis")
    return console.export_svg(title="retrofit", theme=_THEME, code_format=_FORMAT, unique_id="retrofit")


if __name__ == "__main__":
    record = (IMAGES / "retrofit.txt").read_text(encoding="utf-8")
    (IMAGES / "retrofit.svg").write_text(draw(record), encoding="utf-8")
