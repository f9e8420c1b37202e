"""Chat models of every kind, through the vendors' real clients."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dp_middleware.frameworks import ChatModel, chat_model

WORDS = tuple(f"word{k}" for k in range(40))
KINDS = ("openai", "async_openai", "langchain", "llama_index")

Make = Callable[..., ChatModel]


def _openai(url: str, settings: dict[str, Any], opened: list[Any]) -> ChatModel:
    import openai

    opened.append(openai.OpenAI(base_url=url, **settings))
    return chat_model(opened[-1], "gpt-4o-mini")


def _async_openai(url: str, settings: dict[str, Any], opened: list[Any]) -> ChatModel:
    import openai

    return chat_model(openai.AsyncOpenAI(base_url=url, **settings), "gpt-4o-mini")


BUILDERS = {
    "openai": _openai,
    "async_openai": _async_openai,
    "langchain": lambda url, settings, opened: chat_model(langchain_model(url, **settings)),
    "llama_index": lambda url, settings, opened: chat_model(llama_index_llm(url, **settings)),
}


def langchain_model(url: str, **settings: Any) -> Any:
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model="gpt-4o-mini", base_url=url, **{"api_key": "none", **settings})


def llama_index_llm(url: str, **settings: Any) -> Any:
    from llama_index.llms.openai import OpenAI

    return OpenAI(model="gpt-4o-mini", api_base=url, **{"api_key": "none", **settings})


def save_llama(folder: Path, *, length: int, template: str | None = None) -> None:
    """A tiny random Llama with a vocabulary of words, saved as transformers saves models.

    Args:
        folder: Where.
        length: Most tokens of a prompt and its answer.
        template: The chat template of its tokenizer.
    """
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = {"<unk>": 0, **{f"w{k}": k + 1 for k in range(20)}}
    inner = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner)
    tokenizer.chat_template = template
    config = LlamaConfig(
        vocab_size=len(words), hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, max_position_embeddings=length, bos_token_id=None,
        eos_token_id=None,
    )  # fmt: skip
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
