"""What the engine knows of PyTorch's public names: wrappers, optimizers, schedulers and their parameters."""

from __future__ import annotations

DDP_NAMES = frozenset(
    {
        "torch.nn.parallel.DistributedDataParallel",
        "torch.nn.parallel.distributed.DistributedDataParallel",
    }
)
DATA_PARALLEL_NAMES = frozenset(
    {
        "torch.nn.DataParallel",
        "torch.nn.parallel.DataParallel",
        "torch.nn.parallel.data_parallel.DataParallel",
    }
)

#: Parameters in the order in which they may be given by position; source: the signatures of torch 2.13.0,
#: held against the installed torch by tests/test_torch_api.py.
OPTIMIZERS: dict[str, tuple[str, ...]] = {
    "ASGD": ("params", "lr", "lambd", "alpha", "t0", "weight_decay", "foreach", "maximize"),
    "Adadelta": ("params", "lr", "rho", "eps", "weight_decay", "foreach"),
    "Adafactor": ("params", "lr", "beta2_decay", "eps", "d", "weight_decay"),
    "Adagrad": ("params", "lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps", "foreach"),
    "Adam": ("params", "lr", "betas", "eps", "weight_decay", "amsgrad"),
    "AdamW": ("params", "lr", "betas", "eps", "weight_decay", "amsgrad"),
    "Adamax": ("params", "lr", "betas", "eps", "weight_decay", "foreach"),
    "NAdam": ("params", "lr", "betas", "eps", "weight_decay", "momentum_decay", "decoupled_weight_decay"),
    "RAdam": ("params", "lr", "betas", "eps", "weight_decay", "decoupled_weight_decay"),
    "RMSprop": ("params", "lr", "alpha", "eps", "weight_decay", "momentum", "centered"),
    "Rprop": ("params", "lr", "etas", "step_sizes"),
    "SGD": ("params", "lr", "momentum", "dampening", "weight_decay", "nesterov"),
    "SparseAdam": ("params", "lr", "betas", "eps", "maximize"),
}

#: Schedulers that take plain values after the optimizer and are meant to be stepped once an epoch.
SCHEDULERS: dict[str, tuple[str, ...]] = {
    "ConstantLR": ("optimizer", "factor", "total_iters", "last_epoch"),
    "CosineAnnealingLR": ("optimizer", "T_max", "eta_min", "last_epoch"),
    "CosineAnnealingWarmRestarts": ("optimizer", "T_0", "T_mult", "eta_min", "last_epoch"),
    "ExponentialLR": ("optimizer", "gamma", "last_epoch"),
    "LambdaLR": ("optimizer", "lr_lambda", "last_epoch"),
    "LinearLR": ("optimizer", "start_factor", "end_factor", "total_iters", "last_epoch"),
    "MultiStepLR": ("optimizer", "milestones", "gamma", "last_epoch"),
    "MultiplicativeLR": ("optimizer", "lr_lambda", "last_epoch"),
    "PolynomialLR": ("optimizer", "total_iters", "power", "last_epoch"),
    "ReduceLROnPlateau": (
        "optimizer",
        "mode",
        "factor",
        "patience",
        "threshold",
        "threshold_mode",
        "cooldown",
        "min_lr",
        "eps",
    ),
    "StepLR": ("optimizer", "step_size", "gamma", "last_epoch"),
}

#: Methods of a module that return the module itself.
MODULE_METHODS = frozenset(
    {
        "cuda",
        "cpu",
        "to",
        "train",
        "eval",
        "half",
        "float",
        "double",
        "bfloat16",
        "requires_grad_",
        "xpu",
        "apply",
    }
)
#: The methods among them that put a module on a device or change its number format.
MOVING_METHODS = frozenset({"cuda", "cpu", "to", "half", "float", "double", "bfloat16", "xpu"})

#: Functions that return their first argument's module, perhaps wrapped.
MODULE_FUNCTIONS = frozenset(
    {
        *DDP_NAMES,
        *DATA_PARALLEL_NAMES,
        "torch.compile",
        "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
        "torch.nn.modules.batchnorm.SyncBatchNorm.convert_sync_batchnorm",
        "apex.parallel.convert_syncbn_model",
        "apex.parallel.DistributedDataParallel",
    }
)
