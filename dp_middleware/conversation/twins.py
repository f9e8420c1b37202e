"""Sessions that share a memo, at other epsilons and in the name of other subjects."""

from __future__ import annotations

from typing import Self

from dp_middleware import _validate
from dp_middleware.conversation.events import Events
from dp_middleware.errors import NotPrepared

_SAME = 1e-9  # nats
_TWINS = 32  # sessions at other epsilons that are kept: calibrating them is slow


class Twins(Events):
    """Makes the same session with another sanitizer."""

    def at(self, epsilon: float) -> Self:
        """Returns the same session at another epsilon; see :meth:`Sanitizer.at`.

        Memo, key, scope, limits, ledger and noted answers are shared. A private event, known by
        its id *and* the mechanism, is another one here: a new release and a new charge, and both
        releases together are worth the sum of their epsilons. Safe for threads. An epsilon that
        is asked for again finds its releases.

        Args:
            epsilon: Nats per token occurrence, a public number.

        Returns:
            This session or the one it came from, if it has this epsilon or the same calibrated
            mechanism; a certified epsilon may be just below.

        Raises:
            CannotCalibrate: The mechanism cannot reach this epsilon.
        """
        _validate.positive(epsilon=epsilon)
        first = self._first
        for session in (self, first):
            if abs(session.sanitizer.certificate.epsilon - epsilon) <= _SAME:
                return session
        twin = first._at.pop(epsilon, None)
        if twin is None:  # two that are made at once share all
            sanitizer, own = first.sanitizer.at(epsilon), first.sanitizer.certificate
            same = sanitizer.certificate.mechanism == own.mechanism
            twin = first if same else first._with(sanitizer)
        first._at[epsilon] = twin
        for old in list(first._at)[:-_TWINS]:
            first._at.pop(old, None)
        return twin

    def prepared_at(self, epsilon: float) -> Self:
        """Does as :meth:`at`, for an epsilon that a call asks for: refused if it takes a search.

        Prepared is what :meth:`at` gave before, what the cache folder has, from another process or
        ``dp-middleware prepare``, what comes with the package, and whatever takes no time.

        Raises:
            NotPrepared: None of these.
            CannotCalibrate: As :meth:`at`.
        """
        own = self._first.sanitizer.certificate.epsilon
        known = {own, self.sanitizer.certificate.epsilon, *self._first._at}
        if epsilon in known or abs(own - epsilon) <= _SAME or self.sanitizer.is_prepared(epsilon):
            return self.at(epsilon)
        raise NotPrepared(
            f"expected an epsilon that is prepared, got {epsilon:g}; this session has "
            f"{', '.join(f'{nats:g}' for nats in sorted(known))}: prepare others when the server "
            f"starts, by session.at({epsilon:g}) or `dp-middleware prepare --epsilon {epsilon:g}`"
        )

    def for_subject(self, subject: str) -> Self:
        """Returns the same session in the name of another subject, whose budget is charged.

        Memo, key, scope and limits are shared, events and noted answers are not: conversations of
        different subjects never have a release in common, whatever their names. Safe for threads.

        Args:
            subject: A public name, told by who is logged in, never by what a user sends.

        Raises:
            ParameterError: No name.
        """
        sanitizer = self.sanitizer.for_subject(subject)
        if subject == self.sanitizer.subject:
            return self
        return self._with(sanitizer)._begin()
