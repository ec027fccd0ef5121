"""SyncBatchNorm on the CPU, with the statistics of all processes."""

from __future__ import annotations

from typing import Any

from .devices import torch
from .patching import wrap

dist: Any = torch.distributed


def install() -> None:
    """Replace SyncBatchNorm's forward."""
    if dist.is_available():
        wrap("forward", lambda real: _forward, torch.nn.SyncBatchNorm)
        # All it does is refuse SyncBatchNorm on the CPU.
        wrap(
            "_passing_sync_batchnorm_handle",
            lambda real: lambda self, module: None,
            torch.nn.parallel.DistributedDataParallel,
        )


class _SumOverRanks(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, tensor: Any, group: Any) -> Any:
        ctx.group = group
        total = tensor.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return _SumOverRanks.apply(gradient.contiguous(), ctx.group), None


def _forward(self: Any, input: Any) -> Any:
    group = self.process_group or (dist.group.WORLD if dist.is_initialized() else None)
    if not self.training or group is None or dist.get_world_size(group) == 1:
        return torch.nn.modules.batchnorm._BatchNorm.forward(self, input)
    self._check_input_dim(input)
    self._check_non_zero_input_channels(input)
    dims = [dim for dim in range(input.dim()) if dim != 1]
    shape = [-1 if dim == 1 else 1 for dim in range(input.dim())]
    x = input.float() if input.dtype in (torch.float16, torch.bfloat16) else input
    sums = _SumOverRanks.apply(torch.cat([x.sum(dims), x.new_tensor([x.numel() / x.size(1)])]), group)
    count = sums[-1].detach()
    mean = sums[:-1] / count
    centered = x - mean.view(shape)
    variance = _SumOverRanks.apply((centered * centered).sum(dims), group) / count
    if self.track_running_stats:
        _track(self, mean.detach(), variance.detach() * count / (count - 1))
    output = centered * torch.rsqrt(variance + self.eps).view(shape)
    if self.affine:
        output = output * self.weight.view(shape) + self.bias.view(shape)
    return output.to(input.dtype)


def _track(self: Any, mean: Any, variance: Any) -> None:
    self.num_batches_tracked.add_(1)
    momentum = 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
    self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum)
    self.running_var.lerp_(variance.to(self.running_var.dtype), momentum)
