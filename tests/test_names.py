"""Parameters that a script looks for by their whole names are asked about where the names have changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import code, plan_of, script

_PLAIN = script("acc = evaluate(model)\nif acc > best:\n    best = acc", "best = 0")
_NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(8, 8)
        self.head = nn.Linear(8, 8)

    def groups(self):
        decay = set()
        for mn, m in self.named_modules():
            for pn, p in m.named_parameters():
                decay.add(f"{mn}.{pn}" if mn else pn)
        LOOKED
        return [p for n, p in self.named_parameters() if n in decay]


"""


def asked(folder: Path, before: str = "", params: str = "model.parameters()", looked: str = "pass") -> list[str]:
    """Return the lines that are asked about, of a script with statements before its optimizer is built."""
    head, _, rest = _PLAIN.partition("optimizer = torch.optim.SGD(model.parameters()")
    head = head.replace("\nmodel = Net()", code(_NET).replace("LOOKED", looked) + "\nmodel = Net()")
    text = f"from torch import nn\n{head}{code(before)}\noptimizer = torch.optim.SGD({params}{rest}"
    lines = text.splitlines()
    questions = plan_of(folder, text).questions
    assert all(question.code == "PAI109" for question in questions), questions
    return [lines[question.line - 1].strip() for question in questions]


LOOKED = {
    "out of a set": "names = {n for n, p in model.named_parameters()}\nnames.remove('head.weight')",
    "silently": "names = set(n for n, p in model.named_parameters())\nnames.discard('head.weight')",
    "out of a dict": "known = dict(model.named_parameters())\nhead = known.pop('head.weight')",
    "in a dict": "known = dict(model.named_parameters())\nhead = known['blocks.0.head.bias']",
    "at once": "head = dict(model.named_parameters())['head.weight']",
    "in the state": "state = model.state_dict()\nnn.init.zeros_(state['head.weight'])",
    "of the wrapper's model": "head = model.module.get_parameter('head.weight')",
    "filled": "names = []\nfor n, p in model.named_parameters():\n    names.append(n)\nnames.remove('head.weight')",
}


@pytest.mark.parametrize("before", LOOKED.values(), ids=LOOKED)
def test_a_whole_name_among_those_of_the_model_is_asked_about(tmp_path: Path, before: str) -> None:
    assert asked(tmp_path, before) == [before.splitlines()[-1]]


def test_so_in_a_method_of_the_model(tmp_path: Path) -> None:
    assert asked(tmp_path, params="model.module.groups()", looked="decay.remove('head.weight')") == [
        "decay.remove('head.weight')"
    ]


def test_the_question_has_the_names_of_the_script(tmp_path: Path) -> None:
    text = _PLAIN.replace("BEFORE", "")
    text = text.replace("best = 0", "best = 0\nw = dict(model.named_parameters())['encoder.proj.weight']")
    [question] = plan_of(tmp_path, text).questions
    assert "`encoder.proj.main_module.weight`" in question.message
    assert "`name.startswith('encoder.proj.')`" in question.message


KEPT = {
    "a layer that is left as it is": "known = dict(model.named_parameters())\ntok = known['tok.weight']",
    "a parameter of the model itself": "known = dict(model.named_parameters())\nscale = known['scale']",
    "a checkpoint": "state = torch.load('a.pt')\ndel state['head.weight']\nhead = state.pop('head.bias')",
    "another model": "other = dict(teacher.named_parameters())\nhead = other['head.weight']",
    "no name": "known = dict(model.named_parameters())\nhead = known[name]",
    "a layer": "known = dict(model.named_modules())\nhead = known['head']",
    "the layer's own": "head = model.module.head.weight",
}


@pytest.mark.parametrize("before", KEPT.values(), ids=KEPT)
def test_names_that_stay_and_those_of_others_are_not_asked_about(tmp_path: Path, before: str) -> None:
    assert asked(tmp_path, before) == []


def test_a_method_that_is_called_before_the_model_is_perforated_sees_the_old_names(tmp_path: Path) -> None:
    assert asked(tmp_path, looked="decay.remove('head.weight')") == []
