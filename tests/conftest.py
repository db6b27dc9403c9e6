"""Shapes and types in the annotations of dnc are checked while the tests run, and only then."""

from jaxtyping import install_import_hook

# The conf lets an int stand where a float is asked for, as everywhere in Python.
install_import_hook("dnc", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))")
