"""The simulation of docs/scale.py agrees with what is known of its simple cases."""

from __future__ import annotations

import math

import pytest

from docs.scale import NODE_HOURS, Training, lost


def test_faults_cost_what_theory_says() -> None:
    """Work that begins anew after each fault takes (exp(rate * length) - 1) / rate on average."""
    nodes, hours, start = 500, 6.0, 0.1
    rate = nodes / NODE_HOURS
    expected = 1 - hours / (math.expm1(rate * (hours + start)) / rate)
    training = Training(nodes, hours, spread=0.0, limit_hours=math.inf, start_minutes=60 * start)
    assert lost(training, weeks=4000) == pytest.approx(expected, rel=0.02)
    assert expected > 0.2


@pytest.mark.parametrize(("hours", "share"), [(7.0, 1 - 21 / 24), (24.0, 1.0), (23.0, 1 / 24)])
def test_a_round_must_fit_into_a_job(hours: float, share: float) -> None:
    training = Training(0, hours, spread=0.0, start_minutes=1.0)
    assert lost(training, weeks=100) == pytest.approx(share, abs=0.01)


def test_own_checkpoints_let_rounds_span_jobs() -> None:
    assert lost(Training(1, 100.0, checkpoint_hours=1.0), weeks=100) < 0.05
