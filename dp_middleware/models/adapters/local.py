"""A text-generation model of the transformers package, run in this process."""
# ruff: noqa: D102 - the calls are documented in Adapter

from __future__ import annotations

from functools import cached_property
from threading import Lock
from typing import Any

from dp_middleware.errors import needs
from dp_middleware.models.adapters.base import Adapter, AdapterError, Messages

MAX_NEW_TOKENS = 512


class TransformersAdapter(Adapter):
    """Answers of at most ``MAX_NEW_TOKENS`` tokens.

    Args:
        name: A folder, or a name on the model hub. Loaded at first use.
        temperature: Tokens are sampled with it; ``None``: decoding is greedy, so that the same
            messages get the same answer.
    """

    def __init__(self, name: str, temperature: float | None = None) -> None:
        self._name = name
        self._decoding: dict[str, Any] = {"do_sample": False}
        if temperature is not None:
            self._decoding = {"do_sample": True, "temperature": temperature}
        self._lock = Lock()

    def ask(self, messages: Messages) -> str:
        with self._lock:
            model, tokenizer = self._loaded
        has_template = bool(tokenizer.chat_template)  # which writes its special tokens itself
        prompt = _prompt(tokenizer, messages)
        tokens = tokenizer(prompt, return_tensors="pt", add_special_tokens=not has_template)
        inputs = {name: tokens[name].to(model.device) for name in ("input_ids", "attention_mask")}
        length = inputs["input_ids"].shape[1]
        paddings = (tokenizer.pad_token_id, tokenizer.eos_token_id, 0)
        output = model.generate(
            **inputs,
            max_new_tokens=_room(model, length),
            **self._decoding,
            pad_token_id=next(token for token in paddings if token is not None),
        )
        return str(tokenizer.decode(output[0, length:], skip_special_tokens=True))

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        import torch

        with needs("models"):
            from transformers import AutoModelForCausalLM, AutoTokenizer

        device = "cuda" if torch.cuda.is_available() else "cpu"
        model: Any = AutoModelForCausalLM.from_pretrained(self._name, dtype="auto")
        return model.to(device).eval(), AutoTokenizer.from_pretrained(self._name)


def _prompt(tokenizer: Any, messages: Messages) -> str:
    if tokenizer.chat_template:
        return str(
            tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        )
    turns = [f"{turn['role'].capitalize()}: {turn['content']}" for turn in messages]
    return "\n\n".join([*turns, "Assistant:"])


def _room(model: Any, length: int) -> int:
    """How many tokens still fit behind a prompt."""
    limit = getattr(model.config, "max_position_embeddings", None) or length + MAX_NEW_TOKENS
    if length >= limit:
        raise AdapterError(f"the prompt has {length} tokens, the model takes {limit}")
    return int(min(MAX_NEW_TOKENS, limit - length))
