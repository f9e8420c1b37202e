"""Models that write: a local causal model, batched, or an OpenAI-compatible server."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

AT_ONCE, ASKED = 64, 16  # prompts in one pass, questions to a server at a time


class Writer(Protocol):
    """A model that writes.

    Attributes:
        chats: Whether it follows instructions; else it continues the prompt as it stands.
    """

    chats: bool

    def __call__(self, prompts: Sequence[str], tokens: int) -> list[str]:
        """What the model writes after each prompt, at most so many tokens."""
        ...


def open_writer(spec: str, temperature: float) -> Writer:
    """A writer for what ``--model`` says.

    Args:
        spec: ``openai:MODEL[@BASE_URL]`` (the key is read from ``OPENAI_API_KEY``), or what
            :func:`load_causal` takes. A model with a chat template gets each prompt as a user's
            message, any other the prompt as it is.
        temperature: Positive: tokens are sampled with it; 0: the likeliest token is taken.
    """
    if spec.startswith("openai:"):
        return ServedWriter(spec.removeprefix("openai:"), temperature)
    return LocalWriter(spec, temperature)


def load_causal(name: str) -> tuple[Any, Any]:
    """A causal model in float32 and its tokenizer, which pads on the left.

    Args:
        name: A folder, a name on the hub, or a GGUF file, for transformers.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source, options = name, {}
    if name.endswith(".gguf"):
        source, options = str(Path(name).parent), {"gguf_file": Path(name).name}
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model: Any = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32, **options)
    tokenizer = AutoTokenizer.from_pretrained(source, padding_side="left", **options)
    return model.to(device).eval(), tokenizer


class LocalWriter:
    """A causal model of transformers in this process, with its key-value cache, in float32.

    Args:
        name: See :func:`load_causal`.
        temperature: See :func:`open_writer`.
        seed: Of the sampling: what is written is no release, so it may be repeatable.
    """

    def __init__(self, name: str, temperature: float, seed: int = 0) -> None:
        self.loaded = self._model, self._tokenizer = load_causal(name)
        if self._tokenizer.pad_token is None:
            self._tokenizer.pad_token = self._tokenizer.convert_ids_to_tokens(0)  # is masked
        self.chats = bool(self._tokenizer.chat_template)
        self._seed = seed
        self._decoding: dict[str, Any] = {"do_sample": False}
        if temperature > 0:
            self._decoding = {"do_sample": True, "temperature": temperature}

    def __call__(self, prompts: Sequence[str], tokens: int) -> list[str]:
        """What follows each prompt, at most so many tokens."""
        import torch

        torch.manual_seed(self._seed)
        order = sorted(range(len(prompts)), key=lambda k: len(prompts[k]))  # little padding
        written = [""] * len(prompts)
        for start in range(0, len(order), AT_ONCE):
            places = order[start : start + AT_ONCE]
            answers = self._write([self._framed(prompts[k]) for k in places], tokens)
            for place, answer in zip(places, answers, strict=True):
                written[place] = answer
        return written

    def _framed(self, prompt: str) -> str:
        if not self.chats:
            return prompt
        messages = [{"role": "user", "content": prompt}]
        return str(
            self._tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True
            )
        )

    def _write(self, prompts: list[str], tokens: int) -> list[str]:
        import torch

        special = not self.chats  # a template writes its own
        inputs = self._tokenizer(
            prompts, return_tensors="pt", padding=True, add_special_tokens=special
        ).to(self._model.device)
        with torch.inference_mode():
            output = self._model.generate(
                input_ids=inputs["input_ids"],
                attention_mask=inputs["attention_mask"],
                max_new_tokens=tokens,
                pad_token_id=self._tokenizer.pad_token_id,
                **self._decoding,
            )
        new = output[:, inputs["input_ids"].shape[1] :]
        return [text.strip() for text in self._tokenizer.batch_decode(new, True)]


class ServedWriter:
    """A chat model of an OpenAI-compatible server.

    Args:
        spec: ``MODEL[@BASE_URL]``.
        temperature: Of the server's sampling.
    """

    chats = True

    def __init__(self, spec: str, temperature: float) -> None:
        from openai import OpenAI

        self._model, _, url = spec.partition("@")
        self._client, self._temperature = OpenAI(base_url=url or None), temperature

    def __call__(self, prompts: Sequence[str], tokens: int) -> list[str]:
        """What the model answers to each prompt, at most so many tokens."""
        with ThreadPoolExecutor(ASKED) as threads:
            return list(threads.map(lambda prompt: self._answer(prompt, tokens), prompts))

    def _answer(self, prompt: str, tokens: int) -> str:
        reply = self._client.chat.completions.create(
            model=self._model,
            messages=[{"role": "user", "content": prompt}],
            temperature=self._temperature,
            max_tokens=tokens,
        )
        return (reply.choices[0].message.content or "").strip()
