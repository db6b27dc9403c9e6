"""Shapes and types of tensors in annotations are checked while the tests run, and only then."""

import os

from jaxtyping import install_import_hook

# The tests run in two processes, and some start more: one thread for each is the fastest.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

# The setting lets an int stand where a float is asked for, as everywhere in Python.
CHECKER = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"

install_import_hook("dnc.centroids", CHECKER)
