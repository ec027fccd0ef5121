"""What each message of retrofit's own means, by its code; those of rules are explained by the rules."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from retrofit.layout import PLAIN, View
from retrofit.toml import read_toml


@dataclass(frozen=True)
class Message:
    """A code with its explanation, as messages.toml has it.

    Attributes:
        code: as messages show it, such as ``RF010``.
        title: what happened, in one line.
        means: what that means.
        cure: what to do.
    """

    code: str
    title: str
    means: str
    cure: str


def load_messages() -> dict[str, Message]:
    """Return the explanations of all codes, in their order."""
    table = read_toml(Path(__file__).with_name("messages.toml"), "RF007")
    return {
        code: Message(code, **{key: " ".join(text.split()) for key, text in e.items()}) for code, e in table.items()
    }


def message_text(message: Message, view: View = PLAIN) -> str:
    """Explain a message: what happened, what it means, and what to do."""
    head = f"{view.paint(message.code, bold=True)}: {message.title}."
    return "\n\n".join(view.wrap(text) for text in (head, message.means, f"What to do: {message.cure}"))
