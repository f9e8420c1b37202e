"""The prompts of InferDPT, as pure functions that return chat messages."""

from __future__ import annotations

Messages = list[dict[str, str]]

_PERTURBED = "Words of the text were replaced at random; go by its overall sense."


def for_remote(released: str, instruction: str | None) -> Messages:
    """What the remote model is sent: public text only.

    Args:
        released: The sanitizer's released text.
        instruction: Public, sent as it is; ``None`` asks for a continuation.
    """
    if instruction is None:
        task = (
            "Continue the Prefix Text below with a passage of similar topic and style. "
            f"{_PERTURBED} Answer with the continuation only."
        )
        return _user(f"{task}\n\nPrefix Text:\n{released}")
    return _user(f"{instruction}\n\n{_PERTURBED}\n\nText:\n{released}")


def for_extractor(document: str, remote_text: str, instruction: str | None) -> Messages:
    """What the local model is given. Private: holds the document.

    Args:
        document: The private text.
        remote_text: The remote model's answer to :func:`for_remote`.
        instruction: As given to the remote model; ``None`` for a continuation.

    Reference:
        Tong et al. (2023), InferDPT, extraction prompt, in our own words.
    """
    if instruction is None:
        task = (
            "Write an Extended Text that continues the Prefix Text. Take your material from the "
            "Perturbed Generation: keep what is coherent and fits the Prefix Text, leave out or "
            "correct what does not, and follow on without a break. Answer with the Extended Text "
            "only."
        )
        return _user(
            f"{task}\n\nPrefix Text:\n{document}\n\nPerturbed Generation:\n{remote_text}\n\n"
            "Extended Text:"
        )
    task = (
        "Carry out the Instruction on the Original Text. The Draft Answer was written for a "
        "version of the text in which words were replaced at random: keep what holds for the "
        "Original Text and correct the rest. Answer with the Final Answer only."
    )
    return _user(
        f"{task}\n\nInstruction:\n{instruction}\n\nOriginal Text:\n{document}\n\n"
        f"Draft Answer:\n{remote_text}\n\nFinal Answer:"
    )


def _user(content: str) -> Messages:
    return [{"role": "user", "content": content}]
