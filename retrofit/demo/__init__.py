"""`retrofit demo`: the main job, on a small project that comes along."""
