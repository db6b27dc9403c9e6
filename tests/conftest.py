"""Shapes and types of tensors in annotations are checked while the tests run, and only then."""

from jaxtyping import install_import_hook

# The setting lets an int stand where a float is asked for, as everywhere in Python.
CHECKER = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"

install_import_hook("dnc.centroids", CHECKER)
