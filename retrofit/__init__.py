"""Rewrite PyTorch training scripts so that multi-GPU runs work with PerforatedAI's dendrites."""

__version__ = "0.1.0"
