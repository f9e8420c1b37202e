"""Models that write: a local causal model, batched, or an OpenAI-compatible server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

AT_ONCE, ASKED = 64, 16  # prompts in one pass, questions to a server at a time

Writer = Callable[[Sequence[str], int], list[str]]
"""Writes after each prompt at most so many tokens; ``chats``: it follows instructions."""


def open_writer(spec: str, temperature: float) -> Any:
    """A :data:`Writer` for what ``--model`` says.

    Args:
        spec: ``openai:MODEL[@BASE_URL]`` (the key is read from ``OPENAI_API_KEY``), or a causal
            model for transformers: a folder, a name on the hub, or a GGUF file. A model with a
            chat template gets each prompt as a user's message, any other the prompt as it is.
        temperature: Positive: tokens are sampled with it; 0: the likeliest token is taken.
    """
    if spec.startswith("openai:"):
        return ServedWriter(spec.removeprefix("openai:"), temperature)
    return LocalWriter(spec, temperature)


class LocalWriter:
    """A causal model in this process, with its key-value cache, in float32.

    ``loaded`` are model and tokenizer, which pads on the left. What is written is no release, so
    sampling has a seed and may be repeatable.
    """

    def __init__(self, name: str, temperature: float, seed: int = 0) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        source, options = name, {}
        if name.endswith(".gguf"):
            source, options = str(Path(name).parent), {"gguf_file": Path(name).name}
        device = "cuda" if torch.cuda.is_available() else "cpu"
        model: Any = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32, **options)
        tokenizer = AutoTokenizer.from_pretrained(source, padding_side="left", **options)
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.convert_ids_to_tokens(0)  # is masked
        self.loaded = self._model, self._tokenizer = model.to(device).eval(), tokenizer
        self.chats = bool(tokenizer.chat_template)
        sampled = {"do_sample": True, "temperature": temperature}
        self._seed, self._decoding = seed, sampled if temperature > 0 else {"do_sample": False}

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
        framed = self._tokenizer.apply_chat_template
        message = {"role": "user", "content": prompt}
        return str(framed([message], tokenize=False, add_generation_prompt=True))

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
    """A chat model, ``MODEL[@BASE_URL]``, of an OpenAI-compatible server, which samples."""

    chats = True

    def __init__(self, spec: str, temperature: float) -> None:
        from openai import OpenAI

        model, _, url = spec.partition("@")
        self._create = OpenAI(base_url=url or None).chat.completions.create
        self._options = {"model": model, "temperature": temperature}

    def __call__(self, prompts: Sequence[str], tokens: int) -> list[str]:
        """What the model answers to each prompt, at most so many tokens."""

        def answer(prompt: str) -> str:
            messages = [{"role": "user", "content": prompt}]
            reply = self._create(messages=messages, max_tokens=tokens, **self._options)
            return (reply.choices[0].message.content or "").strip()

        with ThreadPoolExecutor(ASKED) as threads:
            return list(threads.map(answer, prompts))
