"""Find what a training script is made of."""
