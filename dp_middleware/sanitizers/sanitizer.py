"""The imperative shell: text in, a certified Release out. Charges, then draws."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from dp_middleware._waits import told
from dp_middleware.certification import calibrate
from dp_middleware.certification.calibration import is_quick
from dp_middleware.contexts import Context
from dp_middleware.embedding import EmbeddingSpace
from dp_middleware.errors import InfiniteEpsilon, ParameterError
from dp_middleware.mechanisms import ChannelMechanism, Mechanism, landmarks, near_lists
from dp_middleware.mechanisms.drawing import Drawer, drawer
from dp_middleware.mechanisms.text_mechanisms import Encoder, NoiseMechanism, TextMechanism
from dp_middleware.privacy import Adjacency, Certificate
from dp_middleware.privacy.releases import Bill, Ledger, Payer, Release, check_payer
from dp_middleware.sampling import sampler
from dp_middleware.sanitizers import policies
from dp_middleware.sanitizers.draft import Draft, read, tell_foreign
from dp_middleware.sanitizers.explanation import Explanation, explain
from dp_middleware.sanitizers.policies import KeepPolicy
from dp_middleware.sanitizers.spans import Detector, Scope
from dp_middleware.sanitizers.whole import D, TextDraft, read_whole


class Sanitizer(Payer):
    """Releases texts through a mechanism on a space, each with a true certificate.

    Args:
        mechanism: How a token is perturbed, or a text is.
        space: Vocabulary and vectors.
        context: Where a contextual mechanism has its logits from; it must run where raw text may
            go. For others none.
        encoder: What a mechanism of whole texts scores them with, there too; default an
            :class:`~dp_middleware.EmbeddingService`. For others none.
        policy: Tokens released unchanged; default none.
        adjacency: What the certificate compares; default any substitution, with a policy among
            the tokens that are not kept.
        ledger: Charged before any draw.
        subject: Whose budget is charged; needed with a ledger.
        accept_infinite: Release even if the certified epsilon is infinite.
        insecure_entropy: Replaces the secure source of bytes in tests, never for private text.

    Raises:
        InfiniteEpsilon: A look says that nothing is guaranteed; or the certificate, at first use.
        ParameterError: A ledger without a subject, a context missing or not used.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        space: EmbeddingSpace,
        *,
        context: Context | None = None,
        encoder: Encoder | None = None,
        policy: KeepPolicy | None = None,
        adjacency: Adjacency | None = None,
        ledger: Ledger | None = None,
        subject: str | None = None,
        accept_infinite: bool = False,
        insecure_entropy: sampler.Entropy | None = None,
    ) -> None:
        if isinstance(mechanism, TextMechanism) and policy is not None and policy.kept:
            raise ParameterError(
                "expected no policy= with a mechanism of whole texts: it keeps no tokens"
            )
        check_payer(ledger, subject)
        self.mechanism, self.space = mechanism, space
        self.context, self.encoder = context, encoder
        self.policy = policy if policy is not None else KeepPolicy.nothing()
        self.adjacency = adjacency
        self.ledger, self.subject = ledger, subject
        self.accept_infinite = accept_infinite
        self.entropy = insecure_entropy
        self._drawer  # noqa: B018 - refuses what cannot be drawn from
        self._refuse_infinite(lambda: policies.quick_loss(mechanism, space, self._relation))

    def __repr__(self) -> str:
        return f"Sanitizer({self.mechanism.fingerprint}, {self.space!r}, keeps {self.policy.label})"

    def __getstate__(self) -> dict[str, Any]:
        not_copied = ("_drawer", "certificate")  # which rows are cached tells what was typed
        return {name: value for name, value in self.__dict__.items() if name not in not_copied}

    @cached_property
    def _drawer(self) -> Drawer:
        return drawer(self.mechanism, self.space, self.context, self.encoder)

    @cached_property
    def certificate(self) -> Certificate:
        """The guarantee of every release, per token occurrence or text. Computed at first use.

        With a raw context, for texts as long as its window; that of fewer tokens is better.
        """
        return self._certify(None)

    @cached_property
    def _relation(self) -> Adjacency:
        return policies.relation_of(self.mechanism, self.space, self.policy, self.adjacency)

    def _certify(self, tokens: int | None) -> Certificate:
        if self.context is not None:
            tokens = min(tokens or self.context.window, self.context.window)
        terms = self.mechanism, self.space, self.policy, self._relation
        return policies.certificate_of(*terms, tokens)

    def release(self, text: str, *, scope: Scope | None = None) -> Release:
        """Perturbs a text.

        Args:
            text: Private. Where no token is perturbed, nothing is charged or drawn, but by a
                mechanism of whole texts.
            scope: Private spans, as character offsets (start, end) or a function that finds them.
                **Everything else is released as it is**, the whole text if there are no spans:
                it is declared public, and so are the positions of the spans.

        Raises:
            InfiniteEpsilon: Nothing is guaranteed and ``accept_infinite`` is not set.
            BudgetExhausted: From the ledger; nothing was drawn.
            UnknownTokenError: The vocabulary's policy is ``"raise"``.
            ParameterError: Not a text, or a span outside of it.
        """
        draft = self.read(text, scope)
        tell_foreign(text, self.space.vocabulary)
        return self.release_drafts([draft])[0][0]

    def release_batch(
        self, texts: Sequence[str], *, scope: Detector | Sequence[Scope] | None = None
    ) -> list[Release]:
        """Perturbs texts independently as :meth:`release`; all are charged before the first draw.

        ``scope`` is a function that finds the private spans of a text, or one scope per text.
        Charges made before an error stay spent.
        """
        if isinstance(texts, str):
            raise ParameterError("expected a list of texts, got one str")
        scopes = [scope] * len(texts) if scope is None or callable(scope) else list(scope)
        if len(scopes) != len(texts):
            raise ParameterError(f"expected one scope per text, {len(texts)}, got {len(scopes)}")
        drafts = [self.read(text, one) for text, one in zip(texts, scopes, strict=True)]
        return [release for release, _ in self.release_drafts(drafts)]

    def release_drafts(
        self,
        drafts: Sequence[D],
        compose: Callable[[Certificate], Certificate] = lambda own: own,
        pay: Callable[[Sequence[Bill]], None] | None = None,
    ) -> list[tuple[Release, D]]:
        """Charges for all fresh tokens, draws for them, and writes the texts; as :meth:`release`.

        Args:
            drafts: From :meth:`read`.
            compose: Makes of a release's certificate that of the release and of what follows it.
            pay: Charges for all of them, before the first draw; default :meth:`pay`.

        Returns:
            The releases, and the drafts with what was drawn; the latter are private.
        """
        self._refuse_infinite(lambda: self.certificate.epsilon)
        fresh = [draft.fresh for draft in drafts]
        around, all_drafts = None, list[Draft | TextDraft](drafts)
        if isinstance(self.mechanism, ChannelMechanism | TextMechanism):
            certificates = [self.certificate for _ in drafts]
        else:
            vocabulary = self.space.vocabulary
            around = [own.releases(vocabulary) for own in all_drafts if isinstance(own, Draft)]
            # the number of tokens is public and may matter; a window lies over public ones too
            seen = around if isinstance(self.mechanism, NoiseMechanism) else fresh
            certificates = [self._certify(max(1, len(own))) for own in seen]
        certificates = [
            compose(certificate.assuming(more) if (more := draft.assumptions) else certificate)
            for certificate, draft in zip(certificates, drafts, strict=True)
        ]
        (pay or self.pay)(list(zip(certificates, map(len, fresh), strict=True)))
        drawn = self._drawer.draw(fresh, self.entropy or self._drawer.entropy, around)
        released = []
        for draft, certificate, outputs in zip(drafts, certificates, drawn, strict=True):
            draft = draft.fill(outputs)
            release = Release(
                text=draft.write(self.space.vocabulary),
                certificate=certificate,
                tokens_total=draft.tokens_total,
                tokens_verbatim=draft.tokens_verbatim,
            )
            released.append((release, draft))
        return released

    has_defaults = False  # whether the parameters are public defaults, also at another epsilon
    remembers: ClassVar[bool] = False  # whether a release depends on those before

    def kept_in(self, entries: object, now: float) -> AbstractContextManager[object]:
        """Remembers nothing."""
        return nullcontext()

    def count(self, text: str) -> int:
        """Counts the tokens of a public text, known or unknown."""
        return len(self.space.vocabulary.look_up(text))

    def read(self, text: str, scope: Scope | None = None) -> Draft | TextDraft:
        """Cuts a text into what is public and what is to be drawn for. Private; for sessions.

        Raises as :meth:`release` does; ParameterError: a scope for a mechanism of whole texts.
        """
        if isinstance(self.mechanism, TextMechanism):
            return read_whole(text, scope, self._relation)
        return read(text, scope, self.space, self.policy)

    def explain(self, text: str, *, scope: Scope | None = None) -> Explanation:
        """Tells what would be kept and what the draws look like, locally: no draw, no charge.

        ParameterError: the mechanism has no law per token that could be shown.
        """
        return explain(self.read(text, scope), self.mechanism, self.space, self.certificate.epsilon)

    def prepare(self) -> Path | None:
        """Computes the certificate before any text is there, and what tokens are drawn by.

        Sanitizers with an equal mechanism and space then draw from a file of all tokens in
        ``$DP_MIDDLEWARE_CACHE``: near codewords of a nearest response, the default; landmarks of
        rows, at most 100 MB, of exponentials of a distance or cosine and of RANTEXT, on 512 tokens
        or more and the CPU. Who can write to that folder chooses what is drawn, and is trusted.

        Returns the file; ``None`` for other mechanisms. ParameterError: it cannot be written.
        """
        self._refuse_infinite(lambda: self.certificate.epsilon)
        with told(f"preparing {self.mechanism.name}"):
            path = near_lists.keep(self.mechanism, self.space)
            path = path or landmarks.keep(self.mechanism, self.space)
        self.__dict__.pop("_drawer", None)  # the next one finds the file
        return path

    def at(self, epsilon: float) -> Sanitizer:
        """Returns the same, calibrated to a certified epsilon of this or just below.

        A sanitizer from :func:`sanitizer` takes its mechanism's public defaults anew, which may
        depend on epsilon, as a tuned codebook does. CannotCalibrate: see :func:`calibrate`.
        """
        policies.refuse_meaningless(type(self.mechanism), self.space, epsilon)
        twin, terms = copy.copy(self), (self._starting(epsilon), self.space, epsilon)
        window = None if self.context is None else self.context.window
        twin.mechanism = calibrate(*terms, adjacency=self._relation, length=window)
        return twin

    def is_prepared(self, epsilon: float) -> bool:
        """Tells whether :meth:`at`, and the certificate there, take no search or pass over rows."""
        if self.has_defaults and not type(self.mechanism).has_defaults(epsilon, self.space):
            return False
        return is_quick(self._starting(epsilon), self.space, epsilon, self._relation)

    def _starting(self, epsilon: float) -> Mechanism:
        kind = type(self.mechanism)
        return kind.with_defaults(epsilon, self.space) if self.has_defaults else self.mechanism

    def _refuse_infinite(self, loss: Callable[[], float]) -> None:
        if not self.accept_infinite and math.isinf(loss()):
            raise InfiniteEpsilon(
                f"the loss of {self.mechanism.name} is infinite under this adjacency; use a "
                "mechanism with a guarantee (its strict variant, where there is one), "
                "adjacency=dp.Adjacency.within(...), or accept_infinite=True"
            )
