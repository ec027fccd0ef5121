"""What is behind the messages that a failed training ends with.

Where not said otherwise the messages and their causes were found by experiment with perforatedai 3.2.9 and torch 2.13.
"""

from __future__ import annotations

import re

#: A pattern of the output, and what it means and what to do.
_KNOWN = (
    (
        r"not properly set",
        "a layer's output dimensions are wrong, and the library left in the middle of the backward pass, "
        "with status 0: see --output-dimensions",
    ),
    (
        r"Expected to have finished reduction in the prior iteration",
        "the wrapper waits for gradients of parameters that got none: it lacks keep_tracker_state_local(model) before "
        "it, or find_unused_parameters=pai_distributed.finds_unused_parameters() in it",
    ),
    (
        r"Some tensors share memory",
        "two layers share one tensor (tied weights), which the library cannot save",
    ),
    (
        r"This value is missing from the state dict",
        "a perforated layer got no gradient before its first restructuring: frozen, not used, or, with DataParallel, "
        "seen on replicas only",
    ),
    (
        r"converting a single layer without a name",
        "the model is itself a single layer, which the library does not take: make it a module that has the layer",
    ),
    (r"Need to call \.module", "the score was handed over with the wrapper instead of the model inside it"),
    (
        r"JSONDecodeError",
        "several ranks read and wrote the library's settings at once: perforate_model must run one rank at a time",
    ),
    (
        r"FileNotFoundError.*best_model\.pt",
        "another rank handed its score over before rank 0 had, and rank 0 writes best_model.pt",
    ),
    (
        r"Perforation configuration has not been confirmed",
        "the library asks for its settings to be confirmed: pai_distributed.configure_library() does it",
    ),
    (
        r"CUDA error: invalid device ordinal",
        "the script asks for a GPU that is not there: is it more than one for each process? An initialisation sees "
        "one, unless INIT_GPUS=all",
    ),
    (r"\bOut of memory\b|MemoryError|DefaultCPUAllocator: can't allocate", "memory ran out: try a smaller batch"),
)
_BETWEEN_RANKS = re.compile(
    r"Connection closed by peer|Connection reset|op\.preamble\.length|Received data size|gloo|NCCL|Timed out|"
    r"timed out|Broken pipe|Socket|ProcessGroup",
)
_TRAPS = re.compile(r"\(Pdb\)|not properly set|Error loading .*doesn't match|Need to call \.module")


def cause(text: str) -> str:
    """Return what is behind a message, "" where that is not known."""
    return next((meaning for pattern, meaning in _KNOWN if re.search(pattern, text)), "")


def between_ranks(text: str) -> bool:
    """Is this the message of a rank that lost another one, rather than of what went wrong?"""
    return bool(_BETWEEN_RANKS.search(text))


def trap(output: str) -> str:
    """Return the line in which the library printed that something is wrong without saying so by an exit status."""
    return next((line.strip()[:200] for line in output.splitlines() if _TRAPS.search(line)), "")
