"""Chat models of every kind, through the vendors' real clients."""

from collections.abc import Callable

from dp_middleware.frameworks import ChatModel, chat_model

WORDS = tuple(f"word{k}" for k in range(40))
KINDS = ("openai", "async_openai", "langchain", "llama_index")

Make = Callable[..., ChatModel]


def build(kind, url, settings, opened):
    """A chat model of a kind; clients that are to be closed are appended."""
    import openai

    if kind in ("langchain", "llama_index"):
        make = langchain_model if kind == "langchain" else llama_index_llm
        return chat_model(make(url, **settings))
    client = (openai.OpenAI if kind == "openai" else openai.AsyncOpenAI)(base_url=url, **settings)
    opened += [client] * (kind == "openai")
    return chat_model(client, "gpt-4o-mini")


def langchain_model(url, **settings):
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model="gpt-4o-mini", base_url=url, **{"api_key": "none", **settings})


def llama_index_llm(url, **settings):
    from llama_index.llms.openai import OpenAI

    return OpenAI(model="gpt-4o-mini", api_base=url, **{"api_key": "none", **settings})


def save_llama(folder, *, length, template=None):
    """A tiny random Llama with a vocabulary of words, saved as transformers saves models."""
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
