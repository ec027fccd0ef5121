"""The places in a script that matter, one module a kind, with what a rule may ask or a template may print."""
