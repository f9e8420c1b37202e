"""What attackers recover from releases, from the optimal one down to those of the papers.

``bayes`` is exact and bounds every attacker who sees one token at a time; ``recovery_bound``
bounds it in turn, from a certificate alone; ``bayes_among`` is exact for whole texts.
"""

from dp_middleware.lab.attacks._bayes import bayes, bayes_among, bayes_on, recovery_bound
from dp_middleware.lab.attacks._chat import llm_inference, ngram_leakage
from dp_middleware.lab.attacks._guesses import (
    bayes_with_language_model,
    embedding_inversion,
    masked_token,
)
from dp_middleware.lab.metrics.results import AttackResult

# fmt: off
__all__ = [
    "AttackResult", "bayes", "bayes_among", "bayes_on", "bayes_with_language_model",
    "embedding_inversion", "llm_inference", "masked_token", "ngram_leakage", "recovery_bound",
]
# fmt: on
