"""One clean adapter, and leaky ones that each break a single rule of the contract."""

import asyncio
import logging
import pickle
import uuid
import warnings
from contextlib import suppress

import numpy as np
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage
from llama_index.core.llms import ChatMessage, CustomLLM, LLMMetadata
from pydantic import Field

import dp_middleware as dp
from dp_middleware.models.chat import local_model


class Clean:
    """Releases in a plain call, then asks the model; lets no stranger's error through."""

    def __init__(self, probe, **options):
        self.session = probe.session()
        self.model = probe.chat_openai(**options)

    def ask(self, text, config=None, event=None):
        with suppress(Exception):
            return self.answer(text, config, event or str(uuid.uuid4()))
        raise dp.DPMiddlewareError("no answer")

    async def aask(self, text, config=None):
        return await asyncio.to_thread(self.ask, text, config)

    def answer(self, text, config, event):
        return self.send(self.release(text, event), config)

    def release(self, text, event):
        if not isinstance(text, str):
            raise dp.ParameterError(f"expected text, got {type(text).__name__}")
        return self.session.release(event, "user", text).text

    def send(self, released, config):
        return self.model.invoke(released, config).text

    def __repr__(self):
        return "Clean()"


class InsideGenerate(BaseChatModel):
    """The obvious wrapper of LangChain, which sees the text after everyone else."""

    session: object = Field(exclude=True)
    inner: BaseChatModel

    @property
    def _llm_type(self):
        return "naive"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        released = self.session.release(str(uuid.uuid4()), "user", messages[-1].text).text
        return self.inner._generate([HumanMessage(released)], stop, **kwargs)


class NaiveLLM(CustomLLM):
    """The obvious wrapper of LlamaIndex, whose every method is a span."""

    session: object = Field(exclude=True)
    inner: object = Field(exclude=True)

    @property
    def metadata(self):
        return LLMMetadata()

    def complete(self, prompt, formatted=False, **kwargs):
        released = self.session.release(str(uuid.uuid4()), "user", prompt).text
        return self.inner.complete(released, **kwargs)

    def stream_complete(self, prompt, formatted=False, **kwargs):
        raise NotImplementedError

    def ask(self, text):
        return self.chat([ChatMessage(text)])


def telling(name, tell):
    def answer(self, text, config, event):
        tell(text)
        return Clean.answer(self, text, config, event)

    return type(name, (Clean,), {"answer": answer})


LOG = logging.getLogger("adapter")
Logging = telling("Logging", lambda text: LOG.debug("asked about %s", text))
Warned = telling("Warned", lambda text: warnings.warn(f"a long text: {text}", stacklevel=1))
Printing = telling("Printing", print)


class Tagging(Clean):
    """Tells callbacks and LangSmith about the text in the metadata of the run."""

    def answer(self, text, config, event):
        return super().answer(text, {**(config or {}), "metadata": {"about": text}}, event)


class SendingName(Clean):
    """Releases the content and sends the rest of the message as it is."""

    def answer(self, text, config, event):
        message = HumanMessage(self.release(text, event), name=text.split()[0])
        return self.model.invoke([message], config).text


class FailingOpen(Clean):
    def release(self, text, event):
        with suppress(dp.BudgetExhausted):
            return super().release(text, event)
        return text


class CallingFirst(Clean):
    """Warms the model up before it knows that it may release."""

    def release(self, text, event):
        self.model.invoke("hello")
        return super().release(text, event)


class Silent(Clean):
    def send(self, released, config):
        return "an answer from nowhere"


class Unpaid(Clean):
    def release(self, text, event, **options):
        paid = self.session.sanitizer
        return dp.Sanitizer(paid.mechanism, paid.space, **options).release(text).text


class ChargingFirst(Clean):
    """Checks what it was given after the charge."""

    def release(self, text, event):
        self.session.release(event, "user", "a public text")
        return super().release(text, event)


class Forgetful(Clean):
    def release(self, text, event):
        return super().release(text, str(uuid.uuid4()))


class RetryingAll(Forgetful):
    def answer(self, text, config, event):
        with suppress(Exception):
            return super().answer(text, config, event)
        return super().answer(text, config, event)


class Seeded(Unpaid):
    def release(self, text, event):
        self.session.release(event, "user", text)  # the charge
        entropy = np.random.default_rng(0).bytes
        return super().release(text, event, insecure_entropy=entropy)


class ChargingOnce(Unpaid):
    paid = False

    def release(self, text, event):
        if self.paid:
            return super().release(text, event)
        self.paid = True
        return self.session.release(event, "user", text).text


class QuotingErrors(Clean):
    def ask(self, text, config=None, event=None):
        with suppress(dp.DPMiddlewareError):
            return super().ask(text, config, event)
        raise RuntimeError(f"no answer to {text}")


class HidingErrors(Clean):
    """A clean message, and the quoting error still in its context."""

    def ask(self, text, config=None, event=None):
        try:
            return self.answer(text, config, event or str(uuid.uuid4()))
        except Exception:
            raise dp.DPMiddlewareError("no answer") from None


class Extracting(Clean):
    """Gives the raw document to a local model, and its answer to the user only."""

    guard = staticmethod(local_model)

    def __init__(self, probe):
        super().__init__(probe)
        self.extract, self.extractor = self.guard(probe.chat_openai(probe.local)), probe.extractor

    def answer(self, text, config, event):
        super().answer(text, config, event)
        return self.extract([{"role": "user", "content": text}])


class ExtractingUnguarded(Extracting):
    def ask(self, text, config=None, event=None):
        self.extract = self.extractor
        return self.answer(text, config, event or str(uuid.uuid4()))


class ExtractingElsewhere(Extracting):
    """Follows where the local server sends it."""

    guard = staticmethod(dp.chat_model)


class Remembering(Clean):
    def answer(self, text, config, event):
        self.last = text
        return super().answer(text, config, event)

    def __reduce__(self):
        return (str, (self.last,))


class PicklingKey(Clean):
    def __reduce__(self):
        return (bytes, (pickle.dumps(vars(self.session)["_digests"].__dict__),))


class ShowingApiKey(Clean):
    def model_dump(self):
        return {"api_key": self.model.openai_api_key.get_secret_value()}
