"""The site, and what makes those of its parts that come from the code."""
