"""A pretend accelerator: tensors that claim to live on "cuda", their data on the CPU.

For machines without one: code written for a device runs, and what CUDA refuses is refused here:
host and device tensors in one operation, ``.numpy()`` of a device tensor, shared memory. It
computes as the CPU does and says nothing about the rounding or the speed of a real device.

Every call of torch is taken before it is carried out (``__torch_function__``), checked, and made
on the CPU tensors behind the pretended ones: so views and operations in place need no care.
"""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode

_DEVICE = torch.device("cuda:0")
_TENSOR = torch.Tensor

# Nothing of the host's may see the memory of a device.
_REFUSED = {"numpy", "__array__", "data_ptr", "storage", "untyped_storage", "__dlpack__"}
_INDEXING = {"__getitem__", "__setitem__", "index_put", "index_put_"}


@contextmanager
def pretend_cuda():
    """Tensors can be made on ``torch.device("cuda")``, in this thread; yields it."""
    with _Factories():
        yield torch.device("cuda")


class PretendTensor(torch.Tensor):
    """Says that it is on "cuda:0"; ``held`` has the data, shared with no tensor of the host."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held):
        assert type(held) is torch.Tensor
        made = torch.Tensor._make_wrapper_subclass(
            cls, held.shape, strides=held.stride(), dtype=held.dtype, device=_DEVICE
        )
        made.held = held
        return made

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return _called(func, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise NotImplementedError(f"{func} passed by the pretend device")


class _Factories(TorchFunctionMode):
    """Calls without a pretended tensor among their arguments: those that make one."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return _called(func, args, kwargs or {})


def _called(func, args, kwargs):
    name = getattr(func, "__name__", "")
    if name == "__get__":  # of an attribute
        name = func.__self__.__name__
    pretended = [t for t in _leaves((args, kwargs)) if _pretended(t)]
    asked = kwargs.get("device")
    if name in ("to", "cuda", "cpu") and isinstance(args[0], _TENSOR):
        return _moved(name, args, kwargs)
    if not pretended and not _is_device(asked):
        return func(*args, **kwargs)
    if name in _ANSWERS and _pretended(args[0]):
        return _ANSWERS[name](args[0])
    if name in _REFUSED:
        raise TypeError(f"can't convert {_DEVICE} device type tensor to numpy: {name} on a device")
    if pretended:
        _refuse_mixed(name, args, kwargs)
    if asked is not None:
        kwargs = kwargs | {"device": torch.device("cpu")}
    if name == "sqrt_":
        func = _ieee_root
    found = func(*_mapped(_held, args), **_mapped(_held, kwargs))
    if (asked is not None and not _is_device(asked)) or (name == "tensor" and asked is None):
        return _own(found, pretended)
    known = {id(t.held): t for t in pretended}
    if asked is not None and id(found) not in known:
        found = found.clone()  # as_tensor and asarray share memory
    return _mapped(lambda t: known[id(t)] if id(t) in known else _worn(t), found)


def _moved(name, args, kwargs):
    """``to``, ``cuda``, ``cpu``: the tensor itself, or a copy in memory of its own."""
    tensor, *rest = args
    if name == "cuda":
        rest, kwargs = [_DEVICE], {}
    if name == "cpu":
        rest, kwargs = [torch.device("cpu")], {}
    if rest and isinstance(rest[0], _TENSOR):
        rest = [rest[0].device, rest[0].dtype]
    copy = kwargs.pop("copy", False)
    device, dtype, *_ = torch._C._nn._parse_to(*rest, **kwargs)
    device = device or tensor.device
    held = _held(tensor)
    found = held.to(dtype or held.dtype, copy=copy or _is_device(device) != _pretended(tensor))
    if found is held:
        return tensor
    return PretendTensor(found) if _is_device(device) else found


def _refuse_mixed(name, args, kwargs):
    """All on the device, as CUDA wants it, but numbers that are read, and indices."""
    checked = (args, kwargs)
    if name in _INDEXING:
        given, index, *values = args
        parts = list(_leaves(index))
        fancy = name.startswith("index") or any(isinstance(p, _TENSOR | np.ndarray) for p in parts)
        fancy = fancy or isinstance(index, list)
        checked = (given, values if fancy else None, None if _pretended(given) else index)
        if not fancy:
            return  # a copy into a slice may come from any device
    elif name == "copy_":
        return
    every = list(_leaves(checked))
    if any(isinstance(value, np.ndarray) for value in every):
        raise TypeError(f"expected tensors on {_DEVICE}, got an array of the host in {name}")
    written = [kwargs.get("out")]
    if (name.endswith("_") and not name.startswith("__")) or name in _WRITES:
        written.append(args[0])
    targets = {id(t) for t in _leaves(written) if isinstance(t, _TENSOR)}
    strict = [t for t in every if isinstance(t, _TENSOR) and (_held(t).dim() or id(t) in targets)]
    if any(not _pretended(t) for t in strict):
        raise RuntimeError(f"Expected all tensors to be on the same device, {_DEVICE}, in {name}")


def _ieee_root(held):
    """CUDA's root of a float64 is IEEE 754's; that of torch on the CPU is not always."""
    np.sqrt(held.numpy(), out=held.numpy())
    return held


def _own(found, pretended):
    """Host tensors that share no memory with the device."""
    held = {t.held.untyped_storage().data_ptr() for t in pretended}
    return _mapped(lambda t: t.clone() if t.untyped_storage().data_ptr() in held else t, found)


def _leaves(value):
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple | list):
        for part in value:
            yield from _leaves(part)
    else:
        yield value


def _mapped(change, value):
    if isinstance(value, dict):
        return {name: _mapped(change, part) for name, part in value.items()}
    if isinstance(value, list):
        return [_mapped(change, part) for part in value]
    if isinstance(value, tuple) and not isinstance(value, torch.Size):
        return type(value)([_mapped(change, part) for part in value])  # torch's named ones too
    return change(value)


def _pretended(value):
    return isinstance(value, PretendTensor)


def _held(value):
    return value.held if _pretended(value) else value


def _worn(value):
    return PretendTensor(value) if isinstance(value, _TENSOR) else value


def _is_device(value):
    return isinstance(value, torch.device | str) and torch.device(value).type == _DEVICE.type


_WRITES = {f"__i{name}__" for name in ("add", "sub", "mul", "truediv", "and", "or", "xor", "pow")}
_ANSWERS = {
    "device": lambda _: _DEVICE,
    "get_device": lambda _: 0,
    "is_cuda": lambda _: True,
    "is_cpu": lambda _: False,
    "__iter__": lambda tensor: iter(tensor.unbind(0)),
    "__repr__": lambda tensor: f"pretended on {_DEVICE}: {tensor.held!r}",
}

DEVICES = ["cpu", "pretend", pytest.param("cuda", marks=pytest.mark.gpu)]
"""Parameters of a fixture: the host, the pretended device, and a real one."""


@contextmanager
def device_named(name):
    """One of :data:`DEVICES`; skips where it is absent."""
    if name == "pretend":
        with pretend_cuda() as found:
            yield found
        return
    if name == "cuda" and not torch.cuda.is_available():
        pytest.skip("expected a CUDA device, torch sees none")
    yield torch.device(name)
