"""Prove that a rewritten script trains: run it, restarts and all, with the real library, and watch."""
