"""A session at another epsilon, in the name of another subject, or for one text alone."""

from __future__ import annotations

from typing import NoReturn, Self

from dp_middleware import _validate
from dp_middleware.errors import NotPrepared
from dp_middleware.sanitizers.sanitizer import Sanitizer

_SAME = 1e-9  # nats
_TWINS = 32  # sessions at other epsilons that are kept: calibrating them is slow


class Twins:
    """What makes further sessions of one, which share its memo, key, scope and limits.

    Attributes:
        sanitizer: Charges and draws; all that is different in a twin.
    """

    sanitizer: Sanitizer
    _first: Self
    _at: dict[float, Self]  # the latest last

    def _begin(self) -> Self:
        """The first session of its subject, from which those at other epsilons are made."""
        self._first, self._at = self, {}
        return self

    def __getstate__(self) -> NoReturn:
        raise TypeError("expected a session to stay in its process: it holds a key; make another")

    def at(self, epsilon: float) -> Self:
        """The same session at another epsilon; see :meth:`Sanitizer.at`.

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
        for session in (self, self._first):
            if abs(session.sanitizer.certificate.epsilon - epsilon) <= _SAME:
                return session
        made = self._first._at
        twin = made.pop(epsilon, None) or self._first._calibrate(epsilon)
        made[epsilon] = twin
        for old in list(made)[:-_TWINS]:
            made.pop(old, None)
        return twin

    def prepared_at(self, epsilon: float) -> Self:
        """As :meth:`at`, for an epsilon that a call asks for: refused where it takes a search.

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

    def _calibrate(self, epsilon: float) -> Self:
        """A twin of the first session that shares its memo and locks: two made at once both do."""
        sanitizer = self.sanitizer.at(epsilon)
        if sanitizer.certificate.mechanism == self.sanitizer.certificate.mechanism:
            return self
        return self._with(sanitizer)

    def for_subject(self, subject: str) -> Self:
        """The same session in the name of another subject, whose budget is charged.

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

    def alone(self) -> Self:
        """The same session for texts of no conversation: what they share is kept nowhere else.

        Here just this one: :data:`ONCE` is kept in no memo. One with pseudonyms gives a twin
        with a mapping of its own, in memory as long as the twin.
        """
        return self

    def _with(self, sanitizer: Sanitizer) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__, sanitizer=sanitizer)
        return twin
