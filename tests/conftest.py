"""What holds for all tests: shapes of tensors are checked, examples are the same in each run."""

import os

from hypothesis import settings
from jaxtyping import install_import_hook

# The tests run in two processes, and some start more: one thread for each is the fastest.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

# The setting lets an int stand where a float is asked for, as everywhere in Python.
CHECKER = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"

# Annotations with shapes are checked while the tests run, and only then.
install_import_hook("dnc.centroids", CHECKER)

# One commit passes or fails everywhere; `--hypothesis-profile=default` looks for new examples.
# Tests never time anything: a busy machine is no mistake.
settings.register_profile("same-examples", derandomize=True, deadline=None)
settings.load_profile("same-examples")
