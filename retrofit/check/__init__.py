"""`retrofit check`: which files to read, what the rules find in them, what is suppressed, repaired and reported."""

#: How grave a finding is, from the mildest to the gravest; "open" is what could not be judged.
LEVELS = ("open", "advice", "warning", "error")
