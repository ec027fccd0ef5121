"""`retrofit check`: which files to read, what the rules find in them, what is suppressed, repaired and reported."""
