"""What the engine knows of PyTorch's public names: wrappers, optimizers, schedulers and their parameters."""

from __future__ import annotations

#: What these names mean where nothing in a file gives them a meaning but a star import.
USUAL_NAMES = {"torch": "torch", "nn": "torch.nn", "optim": "torch.optim"}
DATA_LOADERS = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")

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
WRAPPER_NAMES = DDP_NAMES | DATA_PARALLEL_NAMES

#: Losses without parameters, by their names in torch.nn; held against the installed torch by tests/test_torch_api.py.
LOSSES = frozenset(
    f"torch.nn.{name}Loss"
    for name in (
        "BCE", "BCEWithLogits", "CTC", "CosineEmbedding", "CrossEntropy", "GaussianNLL", "HingeEmbedding", "Huber",
        "KLDiv", "L1", "MSE", "MarginRanking", "MultiLabelMargin", "MultiLabelSoftMargin", "MultiMargin", "NLL",
        "PoissonNLL", "SmoothL1", "SoftMargin", "TripletMargin", "TripletMarginWithDistance",
    )
)  # fmt: skip

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

SCHEDULER_MODULE = "torch.optim.lr_scheduler."
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

#: Functions that return the very objects which they are given, in this order, by the keywords of those arguments.
HANDED_THROUGH: dict[str, tuple[str, ...]] = {"apex.amp.initialize": ("models", "optimizers")}

#: The parameters of the wrappers; source: torch 2.13.0, held against the installed torch by tests/test_torch_api.py.
DDP_PARAMETERS = (
    "module",
    "device_ids",
    "output_device",
    "dim",
    "broadcast_buffers",
    "init_sync",
    "process_group",
    "bucket_cap_mb",
    "find_unused_parameters",
    "check_reduction",
    "gradient_as_bucket_view",
    "static_graph",
    "delay_all_reduce_named_params",
    "param_to_hook_all_reduce",
    "mixed_precision",
    "device_mesh",
    "skip_all_reduce_unused_params",
    "bucket_cap_mb_list",
    "batched_grad_copy",
    "forward_sync_buffers",
)
DATA_PARALLEL_PARAMETERS = ("module", "device_ids", "output_device", "dim")

#: The public attributes and methods that either wrapper has of its own; `.module` has the model's.
WRAPPER_MEMBERS = frozenset(
    {
        "T_destination", "add_module", "apply", "batched_grad_copy", "bfloat16", "broadcast_bucket_size",
        "broadcast_buffers", "bucket_bytes_cap", "bucket_bytes_cap_default", "bucket_bytes_cap_list", "buffers",
        "call_super_init", "children", "compile", "cpu", "cuda", "device", "device_ids", "device_type", "dim",
        "double", "dump_patches", "eval", "extra_repr", "find_unused_parameters", "float", "forward",
        "forward_sync_buffers", "gather", "get_buffer", "get_extra_state", "get_parameter", "get_submodule",
        "gradient_as_bucket_view", "half", "ipu", "is_multi_device_module", "join", "join_device", "join_hook",
        "join_process_group", "load_state_dict", "logger", "mixed_precision", "module", "modules",
        "modules_buffers", "mtia", "named_buffers", "named_children", "named_module_buffers", "named_modules",
        "named_parameters", "no_sync", "output_device", "parallel_apply", "parameters", "parameters_to_ignore",
        "process_group", "reducer", "register_backward_hook", "register_buffer", "register_comm_hook",
        "register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook",
        "register_full_backward_pre_hook", "register_load_state_dict_post_hook",
        "register_load_state_dict_pre_hook", "register_module", "register_parameter",
        "register_state_dict_post_hook", "register_state_dict_pre_hook", "replicate",
        "require_backward_grad_sync", "require_forward_param_sync", "requires_grad_", "scatter",
        "set_extra_state", "set_submodule", "share_memory", "skip_all_reduce_unused_params", "state_dict",
        "static_graph", "to", "to_empty", "to_kwargs", "train", "training", "type",
        "use_side_stream_for_tensor_copies", "will_sync_module_buffers", "xpu", "zero_grad",
    }
)  # fmt: skip

#: Collectives that leave their result on one rank alone: the argument that gets it, and the one that names the rank.
TO_ONE_RANK = {
    "torch.distributed.gather": (("gather_list", 1), ("dst", 2)),
    "torch.distributed.gather_object": (("object_gather_list", 1), ("dst", 2)),
    "torch.distributed.reduce": (("tensor", 0), ("dst", 1)),
}
#: Collectives after which all ranks have the same, with the argument that holds it.
TO_ALL_RANKS = {
    "torch.distributed.all_gather": ("tensor_list", 0),
    "torch.distributed.all_gather_into_tensor": ("output_tensor", 0),
    "torch.distributed.all_gather_object": ("object_list", 0),
    "torch.distributed.all_reduce": ("tensor", 0),
    "torch.distributed.broadcast": ("tensor", 0),
    "torch.distributed.broadcast_object_list": ("object_list", 0),
}

#: Functions of libraries that run a model to tell its layers or what they cost, by hooks that know torch's modules, and
#: leave it as it was: dendrites' modules hand dicts on.
SUMMARIES = frozenset(
    {"torchsummary.summary", "torchsummary.summary_string", "torchsummaryX.summary", "torchinfo.summary"}
    | {"pytorch_model_summary.summary", "modelsummary.summary", "torchscan.summary", "torchstat.stat"}
    | {"thop.profile", "thop.profile.profile", "ptflops.get_model_complexity_info", "calflops.calculate_flops"}
)
