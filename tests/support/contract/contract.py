"""The trace-safe contract: tests that every adapter must pass, whatever framework it is for."""

import contextvars
import pickle
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest
from support.contract._components import texts_of_component
from support.contract._reading import text_of
from support.contract.calls import result_of
from support.contract.probe import Probe

from dp_middleware.errors import DPMiddlewareError, ParameterError, UntrustedHost

THREADS = 16


class TraceSafeContract:
    """Subclass it in a test module, with :attr:`calls` and :meth:`adapter`; pytest does the rest.

    Every entry of the tables is a function of the adapter and the :class:`Probe`, plain or
    ``async def``; iterators and awaitables that it returns are drained. Its name is part of the
    test's id. Every test builds an adapter of its own.

    Example:
        ::

            class TestMyChatModel(TraceSafeContract):
                calls = {"invoke": lambda model, probe: model.invoke(probe.new_text())}

                def adapter(self, probe):
                    return MyChatModel(probe.session(), probe.chat_openai())

    Attributes:
        calls: Every way of calling; each call must be a new event, so take texts and ids from
            ``probe.new_text()`` and ``probe.new_id()``. The first is also run from 16 threads.
        output: What the adapter gives: ``"public"``, the remote model's own words, which may not
            hold the canary; ``"private"``, an answer extracted locally, which may; or
            ``"released"``, what itself leaves, where no remote model is called.
        replays: Called twice with the *same* events (``probe.private_text``, fixed ids): the same
            bytes leave, and nothing is charged again.
        retries: Called, with a new event, while the first request fails: they try again with the
            same bytes.
        fallbacks: Called with another remote model as a fallback: on the good path, and where the
            remote model, the budget or the release fails. They may raise; for LangChain see
            :func:`fallback_calls`.
        refusals: Must raise a ``DPMiddlewareError`` before anything is charged or sent.
        quiet: A block, such as ``untraced``, in which what stands above is not recorded.
        begun: Called in a quiet block; what they return, also streams in a list, tuple or dict, is
            read in it.
        requires: Sources that must be recorded, see ``Probe.sources``: a framework that is not
            installed then fails the tests instead of being left out.
        hears: Sources that must have recorded released words: traces stay useful.
    """

    calls = replays = retries = fallbacks = refusals = begun = {}
    output, quiet = "public", nullcontext
    requires = hears = frozenset()

    def adapter(self, probe):
        """A new adapter on ``probe.session()``, with clients of ``probe.remote``."""
        raise NotImplementedError

    def exposed(self, adapter, probe):
        """Objects that users print, serialise and send: the adapter, if nothing else is."""
        return [adapter]

    @pytest.fixture
    def probe(self, tmp_path, capsys):
        """All recorders on."""
        with Probe(tmp_path, captured=capsys.readouterr) as probe:
            missing = self.requires - probe.sources
            assert not missing, f"not recorded, as its package is missing: {sorted(missing)}"
            yield probe

    def pytest_generate_tests(self, metafunc):
        """One test per entry of a table."""
        if not self.calls:
            raise ParameterError(f"expected {type(self).__name__}.calls, got none")
        for argument, table in {
            "call": self.calls,
            "remote_call": {} if self.output == "released" else self.calls,
            "extracting_call": self.calls if self.output == "private" else {},
            "replay": self.replays,
            "retry": self.retries,
            "fallback": self.fallbacks,
            "refusal": self.refusals,
            "begun_call": self.begun,
        }.items():
            if argument in metafunc.fixturenames:
                metafunc.parametrize(argument, table.values(), ids=table)

    def test_nothing_private_is_recorded_or_sent(self, call, probe):
        """Rule 1, on the good path; released text arrived, so something was there to leak."""
        output = result_of(call, self.adapter(probe), probe)
        assert probe.released(self._left(probe, output)), "no released text left the adapter"
        assert probe.charges, "nothing was charged"
        self._assert_clean(probe, **({} if self.output == "private" else {"output": output}))
        records = probe.records()
        deaf = {source for source in self.hears if not probe.released(records[source])}
        assert not deaf, f"no released text was recorded by {sorted(deaf)}"

    @pytest.mark.parametrize("fault", ["error", "dead"])
    def test_a_failing_remote(self, remote_call, fault, probe):
        """Rule 1, when the remote model quotes the request in its error or is not there."""
        adapter = self.adapter(probe)
        probe.remote.mode = "error"
        if fault == "dead":
            probe.remote.stop()
        self._assert_raises(remote_call, adapter, probe)
        assert probe.remote.raw or fault == "dead", "the remote model was not called"

    def test_a_failing_extractor(self, extracting_call, probe):
        """Rule 1, when the local model quotes the raw document in its error."""
        self._assert_extractor_fails(extracting_call, "error", probe)

    def test_a_redirected_extractor(self, extracting_call, probe):
        """Rule 1, when the local model's server sends its callers on to the remote model."""
        probe.local.redirect_to = probe.remote.url
        self._assert_extractor_fails(extracting_call, "redirect", probe)

    def test_an_extractor_behind_a_proxy(self, extracting_call, probe):
        """Rule 1, when the client of the local model has a proxy, which would read raw text."""
        probe.put_proxy_before_local()
        with pytest.raises(UntrustedHost) as caught:
            result_of(extracting_call, self.adapter(probe), probe)
        self._assert_clean(probe, exception=caught.value)
        self._assert_nothing_sent(probe)

    def test_an_exhausted_budget(self, call, probe):
        """Rule 4: it raises and nothing leaves."""
        probe.exhaust_budget()
        self._assert_raises(call, self.adapter(probe), probe)
        assert not probe.charges
        self._assert_nothing_sent(probe)

    def test_a_failing_release(self, call, probe):
        """Rule 4, with an error inside the release that quotes the text."""
        probe.break_ledger()
        self._assert_raises(call, self.adapter(probe), probe)
        self._assert_nothing_sent(probe)

    def test_what_cannot_be_released(self, refusal, probe):
        """Rule 4: it raises, free of charge, and nothing leaves."""
        self._assert_raises(refusal, self.adapter(probe), probe, DPMiddlewareError)
        assert not probe.charges, "something was charged for before the refusal"
        self._assert_nothing_sent(probe)

    def test_the_same_event_again(self, replay, probe):
        """Rule 2: the same bytes, no second charge."""
        adapter = self.adapter(probe)
        first = self._left(probe, result_of(replay, adapter, probe))
        charged = len(probe.charges)
        assert charged, "nothing was charged"
        assert probe.released(first), "no released text left the adapter"
        probe.remote.bodies.clear()
        again = self._left(probe, result_of(replay, adapter, probe))
        assert text_of(again) == text_of(first), "the second time, something else left"
        assert len(probe.charges) == charged, "the second time was charged again"
        self._assert_clean(probe)

    def test_a_retry(self, retry, probe):
        """Rule 2: a request that is tried again is not released again."""
        adapter = self.adapter(probe)
        result_of(retry, adapter, probe)
        charged, once = len(probe.charges), len(probe.remote.bodies)
        probe.remote.bodies.clear()
        probe.remote.failures = 1
        result_of(retry, adapter, probe)
        bodies = probe.remote.bodies
        assert len(bodies) == once + 1, "it did not try again once"
        assert bodies[0] == bodies[1], "the retry sent something else"
        assert len(probe.charges) == 2 * charged, "the retry was charged for"
        self._assert_clean(probe)

    @pytest.mark.parametrize("trouble", ["none", "remote", "budget", "release"])
    def test_a_fallback(self, fallback, trouble, probe):
        """Rule 1: whatever fails, a refusal too, no fallback is handed raw text."""
        probe.remote.failures = int(trouble == "remote")
        if trouble == "budget":
            probe.exhaust_budget()
        elif trouble == "release":
            probe.break_ledger()
        try:
            result_of(fallback, self.adapter(probe), probe)
        except Exception as error:
            self._assert_clean(probe, exception=error)
        if trouble in ("budget", "release"):
            self._assert_nothing_sent(probe)
        self._assert_clean(probe)

    def test_threads_draw_apart(self, probe):
        """Rule 3: as many draws and charges as events."""
        call, adapter = next(iter(self.calls.values())), self.adapter(probe)
        once = len(self._left(probe, result_of(call, adapter, probe)))
        charged = len(probe.charges)
        probe.remote.bodies.clear()
        contexts = [contextvars.copy_context() for _ in range(THREADS)]
        with ThreadPoolExecutor(THREADS) as pool:
            outputs = list(pool.map(lambda c: c.run(result_of, call, adapter, probe), contexts))
        assert len(probe.charges) == charged * (1 + THREADS), "charges are missing, or too many"
        left = outputs if self.output == "released" else probe.remote.bodies
        draws = {tuple(probe.drawn(text)) for text in left}
        assert len(draws) == once * THREADS, "two draws were equal"
        self._assert_clean(probe)

    def test_inside_a_quiet_block(self, begun_call, probe):
        """Rule 1: what stands above is not recorded, nor a stream or coroutine that it returns."""
        adapter = self.adapter(probe)
        with type(self).quiet():
            result_of(begun_call, adapter, probe)
        assert probe.charges, "nothing was charged"
        self._assert_clean(probe)

    def test_components_show_no_secret(self, probe):
        """Rules 1 and 7: neither text nor keys in what is printed, dumped or pickled after use."""
        adapter = self.adapter(probe)
        result_of(next(iter(self.calls.values())), adapter, probe)
        for component in self.exposed(adapter, probe):
            kind = type(component).__name__
            for form, text in texts_of_component(component).items():
                assert not probe.secrets_in(text), f"{form} of {kind}"
            try:
                pickled = pickle.dumps(component)
            except Exception as error:  # refusing is fine, if it is said without text
                pickled = text_of(error).encode()
            assert not probe.secrets_in_pickle(pickled), f"pickle of {kind}"

    def _left(self, probe, output):
        """What left the trust boundary: requests, or else the output."""
        return [output] if self.output == "released" else list(probe.remote.bodies)

    def _assert_raises(self, call, adapter, probe, kind=Exception):
        with pytest.raises(kind) as caught:
            result_of(call, adapter, probe)
        self._assert_clean(probe, exception=caught.value)

    def _assert_extractor_fails(self, call, mode, probe):
        adapter = self.adapter(probe)
        probe.local.mode = mode
        self._assert_raises(call, adapter, probe)
        assert probe.local.requests, "neither probe.local nor probe.extractor was called"

    def _assert_nothing_sent(self, probe):
        assert not probe.remote.raw, "the remote model was called"

    def _assert_clean(self, probe, **values):
        leaks = probe.leaks(**values)
        assert not leaks, "private text was recorded:\n" + "\n".join(leaks)
