"""The privacy options of a command, and the sanitizer that they describe."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import dp_middleware as dp
from dp_middleware.cli import choices, options, show
from dp_middleware.cli.options import SpaceName, UnitName
from dp_middleware.cli.progress import working
from dp_middleware.errors import ParameterError


@dataclass(frozen=True, kw_only=True)
class PrivacyOptions:
    """Holds the privacy options of one run, which several commands have; all public.

    A command gets them by :func:`with_settings`: their names, help and defaults are these. If
    ``ledger``, both budgets and ``subject`` are ``None``, nothing is charged.
    """

    epsilon: options.Epsilon = 10.0
    unit: options.UnitOption = UnitName.occurrence
    nominal: options.Nominal = False
    mechanism: options.MechanismName = None
    space: options.SpaceOption = SpaceName.default
    keep: options.Keeps = None
    within_classes: options.WithinClasses = False
    accept_infinite: options.AcceptInfinite = False
    context: options.ContextOption = None
    ledger: options.Ledger = None
    budget: options.Budget = None
    metric_budget: options.MetricBudget = None
    subject: options.Subject = None

    @property
    def asked(self) -> str:
        """What ``epsilon`` meant, in words."""
        if self.nominal:
            return f"asked for nominal epsilon {self.epsilon:g}, the mechanism's own parameter"
        return f"asked for exact epsilon {self.epsilon:g}, calibrated"

    @property
    def asked_data(self) -> dict[str, Any]:
        """The same, JSON-ready."""
        return {"epsilon": self.epsilon, "kind": "nominal" if self.nominal else "exact"}

    def uncharged(self) -> PrivacyOptions:
        """Returns the same without a ledger, for what draws nothing."""
        return replace(self, ledger=None, budget=None, metric_budget=None, subject=None)

    def sanitizer(self) -> dp.Sanitizer:
        """Loads the space and calibrates or certifies; a ledger is opened or created last."""
        if self.accept_infinite and not self.nominal:
            raise ParameterError("expected --nominal with --accept-infinite: infinity has no exact")
        kind = choices.mechanism_of(self.mechanism, self.epsilon, unit=self.unit)
        context = choices.context_of(self.context)
        from dp_middleware.mechanisms.drawing import check_context

        check_context(kind, context)
        space, policy = choices.space_of(self.space), choices.policy_of(self.keep)
        adjacency = dp.Adjacency.sentences() if self.unit is UnitName.sentence else None
        if self.within_classes:
            adjacency = choices.classes_of(kind.with_defaults(self.epsilon, space), space)
        terms: dict[str, Any] = {"context": context, "policy": policy, "adjacency": adjacency}
        charged = (self.ledger, self.budget, self.metric_budget, self.subject)
        if charged != (None, None, None, None):
            terms["ledger"] = show.open_ledger(self.ledger, self.budget, self.metric_budget)
            terms["subject"] = options.DEFAULT_SUBJECT if self.subject is None else self.subject
        if self.nominal:
            with working(f"choosing the parameters of {kind.name}"):
                mechanism = kind.with_defaults(self.epsilon, space)
            return dp.Sanitizer(mechanism, space, accept_infinite=self.accept_infinite, **terms)
        with working(choices.calibrating(kind, self.epsilon)):
            return dp.sanitizer(self.epsilon, kind.name, space, **terms)


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command :class:`PrivacyOptions` in place of its parameter ``settings``.

    An option of the command's own takes the place of one with its name. Typer reads options from a
    signature, and has no other way to share a dozen of them.
    """
    parameters = inspect.signature(command, eval_str=True).parameters
    own = [parameter for name, parameter in parameters.items() if name != "settings"]
    everywhere = inspect.signature(PrivacyOptions, eval_str=True).parameters
    shared = [option for name, option in everywhere.items() if name not in parameters]

    @functools.wraps(command)
    def run(**values: Any) -> None:
        settings = PrivacyOptions(**{option.name: values.pop(option.name) for option in shared})
        command(settings=settings, **values)

    run.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in (*own, *shared)}
    return run
