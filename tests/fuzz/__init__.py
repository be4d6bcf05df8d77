"""Mutated PTX for the parser and the module loader; see README.md."""
