"""Mechanisms on real texts: what attackers recover, what the text keeps, in one tidy table."""

from dp_middleware.lab.evaluation._cases import Models
from dp_middleware.lab.evaluation.data import Texts, load
from dp_middleware.lab.evaluation.results import Results
from dp_middleware.lab.evaluation.running import attack, evaluate

__all__ = ["Models", "Results", "Texts", "attack", "evaluate", "load"]
