"""The pretend device refuses what CUDA refuses: each test holds on both, where there is a GPU."""

import numpy as np
import pytest
import torch
from support.cases import over
from support.pretend_device import DEVICES, device_named

MIXED = [
    lambda far, near: far + near,
    lambda far, near: near * far,
    lambda far, near: far.add_(near),
    lambda far, near: near.add_(far),
    lambda far, near: torch.tensor(0.0).add_(far.sum()),
    lambda far, near: far @ near.T,
    lambda far, near: torch.mm(far, far.T, out=torch.empty(3, 3).double()),
    lambda far, near: torch.cat([far, near]),
    lambda far, near: torch.where(near > 0, far, 0.0),
    lambda far, near: far.gather(1, near.long()),
    lambda far, near: near[far[:, 0].long() % 3],
    lambda far, near: far.__setitem__(near > 5, near[near > 5]),
    lambda far, near: torch.searchsorted(far, near),
    lambda far, near: far.masked_fill_(near > 0, 0.0),
]


@pytest.fixture(params=DEVICES[1:])
def device(request):
    with device_named(request.param) as found:
        yield found


@pytest.fixture
def host():
    return torch.arange(12.0, dtype=torch.float64).reshape(3, 4)


@over("mixed", MIXED)
def test_host_and_device_do_not_mix(mixed, device, host):
    with pytest.raises(RuntimeError, match="device"):
        mixed(host.to(device), host)


@over("smuggled", [lambda far: far.numpy(), np.asarray, np.exp])
def test_the_host_does_not_read_a_device(smuggled, device, host):
    with pytest.raises(TypeError, match="convert cuda:0"):
        smuggled(host.to(device))


def test_a_move_is_a_copy_there_and_back(device):
    array = np.zeros(3)
    far = torch.from_numpy(array).to(device)
    far += 1
    back = far.cpu()
    back += 1
    assert type(back) is torch.Tensor
    assert (array.tolist(), far.tolist(), back.tolist()) == ([0] * 3, [1] * 3, [2] * 3)
    assert far.to(device) is far
    taken = torch.as_tensor(array, device=device)
    array += 5
    assert taken.tolist() == [0] * 3
