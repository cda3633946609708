"""Sharding of a run's trained networks, where its config asks for it."""

from dataclasses import replace

from modules.assembly.method import Attached
from modules.assembly.run_context import Run
from modules.interfaces import named_parameters
from modules.methods.full import Full
from modules.methods.sharded import ShardedFull


def is_sharded(run: Run) -> bool:
    """Return whether each process has only a part of the trained weights."""
    return run.config.hardware.sharding == "full" and not run.world.is_alone


def with_sharding(run: Run, attached: Attached) -> Attached:
    """Return the method with its networks sharded; call it once their layers are managed."""
    method, family = attached.method, attached.family
    if not is_sharded(run):
        return attached
    # Which other runs do not load.
    from modules.sharding.sharding import shard

    assert isinstance(method, Full), "the rules refuse others"
    networks = {
        name: network
        for name, network in {"unet": family.unet, **family.text_encoders}.items()
        if network in method.trained
    }
    sharding = shard(
        networks,
        family.layers(),
        named_parameters(method.parameter_groups()),
        world=run.world,
        device=run.device,
    )
    return replace(attached, method=ShardedFull.of(method, sharding), sharding=sharding)
