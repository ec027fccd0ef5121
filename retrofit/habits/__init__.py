"""How one file uses PyTorch's data parallelism: the sites that the rules of `retrofit check` speak of."""
