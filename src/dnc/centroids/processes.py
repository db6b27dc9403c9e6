"""The head beside what torch does for training in several processes."""

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from dnc.centroids.head import SubCentroidHead


def exempt_from_broadcast(
    model: nn.Module, heads: tuple[type[nn.Module], ...] = (SubCentroidHead,)
) -> None:
    """Lets DistributedDataParallel leave the state of every head in a model alone.

    By itself it sends the buffers of the first process to all others before each forward pass, and
    would put the memory of that process's classes in the place of theirs. Call this with the
    module that is to be wrapped, before it is. What was exempt already stays so.

    Args:
        model: to be wrapped.
        heads: the kinds of modules that are heads.

    """
    exempt = set(getattr(model, "_ddp_params_and_buffers_to_ignore", ()))
    # A head that is in the model twice has two names, and either may be the one that counts.
    for name, module in model.named_modules(remove_duplicate=False):
        if isinstance(module, heads):
            exempt |= {buffer for buffer, _ in module.named_buffers(prefix=name)}
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, sorted(exempt))
