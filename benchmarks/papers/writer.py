"""Models that write: a local causal model, batched, or an OpenAI-compatible server."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

AT_ONCE, ASKED = 64, 16  # prompts in one pass, questions to a server at a time

Writer = Callable[[Sequence[str], int], list[str]]
"""Writes after each prompt at most so many tokens; ``chats``: it follows instructions."""


def open_writer(spec: str, temperature: float) -> Any:
    """A :data:`Writer` for what ``--model`` says; at temperature 0 it takes the likeliest tokens.

    ``openai:MODEL[@BASE_URL]``, or a causal model for transformers: a folder, a name on the hub, or
    a GGUF file. One with a chat template gets each prompt as a user's message.
    """
    if spec.startswith("openai:"):
        return ServedWriter(spec.removeprefix("openai:"), temperature)
    return LocalWriter(spec, temperature)


class LocalWriter:
    """A causal model in this process, in float32; ``loaded`` are it and its tokenizer.

    What is written is no release, so sampling has a seed and may be repeatable.
    """

    def __init__(self, name: str, temperature: float) -> None:
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
        self.loaded, self._torch = (model.to(device).eval(), tokenizer), torch
        self.chats, own = bool(tokenizer.chat_template), {"pad_token_id": tokenizer.pad_token_id}
        sampled = {"do_sample": True, "temperature": temperature}
        self._options = own | (sampled if temperature > 0 else {"do_sample": False})

    def __call__(self, prompts: Sequence[str], tokens: int) -> list[str]:
        self._torch.manual_seed(0)
        order = sorted(range(len(prompts)), key=lambda k: len(prompts[k]))  # little padding
        written = {}
        for start in range(0, len(order), AT_ONCE):
            places = order[start : start + AT_ONCE]
            with self._torch.inference_mode():
                answers = self._write([self._framed(prompts[k]) for k in places], tokens)
            written |= zip(places, map(str.strip, answers), strict=True)
        return [written[place] for place in range(len(prompts))]

    def _framed(self, prompt: str) -> str:
        if not self.chats:
            return prompt
        framed, message = self.loaded[1].apply_chat_template, {"role": "user", "content": prompt}
        return str(framed([message], tokenize=False, add_generation_prompt=True))

    def _write(self, prompts: list[str], tokens: int) -> list[str]:
        model, read = self.loaded
        special = not self.chats  # a template writes its own
        inputs = read(prompts, return_tensors="pt", padding=True, add_special_tokens=special)
        given = {name: inputs[name].to(model.device) for name in ("input_ids", "attention_mask")}
        output = model.generate(**given, max_new_tokens=tokens, **self._options)
        return list(read.batch_decode(output[:, given["input_ids"].shape[1] :], True))


class ServedWriter:
    """A chat model, ``MODEL[@BASE_URL]``, of an OpenAI-compatible server, which samples."""

    chats = True

    def __init__(self, spec: str, temperature: float) -> None:
        from openai import OpenAI

        model, _, url = spec.partition("@")
        self._create = OpenAI(base_url=url or None).chat.completions.create
        self._options = {"model": model, "temperature": temperature}

    def __call__(self, prompts: Sequence[str], tokens: int) -> list[str]:
        def answer(prompt: str) -> str:
            messages = [{"role": "user", "content": prompt}]
            reply = self._create(messages=messages, max_tokens=tokens, **self._options)
            return (reply.choices[0].message.content or "").strip()

        with ThreadPoolExecutor(ASKED) as threads:
            return list(threads.map(answer, prompts))
