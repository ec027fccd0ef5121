"""Targets within targets, as `for i, (x, y) in enumerate(loader)` has them."""

from __future__ import annotations

from tests.helpers import code, index_of, script, survey_of


def test_a_target_within_a_target_is_bound() -> None:
    bound = index_of("for n, (x, (y, z)) in enumerate(loader):\n    pass\n(a, [b]), c = make()").bindings
    assert [(b.target, b.item) for b in bound] == [*zip("nxyzabc", [0, 0, 0, 1, 0, 0, 1], strict=True)]


def test_a_batch_that_both_passes_unpack_and_move_is_of_its_own_pass() -> None:
    epoch = """
        model.eval()
        with torch.no_grad():
            for n, (x, y) in enumerate(val_loader):
                x = x.cuda()
                losses["val"].append(criterion(model(x), y).item())
        val = np.mean(losses["val"][-len(val_loader):])
        if val < best:
            best = val
    """
    text = script(code(epoch), "best, losses = 9, dict(val=[])")
    text = text.replace("for x, y in loader:\n", "for n, (x, y) in enumerate(loader):\n        x = x.cuda()\n")
    (score,) = survey_of(text).scores
    assert (score.expression, score.made) == ("val", "evaluated")
