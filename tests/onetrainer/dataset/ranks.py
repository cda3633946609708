"""Division of a step among the processes of a run."""


def of_rank(step, rank, world):
    """Return the microbatches of one process, each with the position of its first image.

    A process computes every world-th microbatch. In a step that is not full, the last ranks may
    have none.
    """
    position, result = 0, []
    for number, microbatch in enumerate(step.microbatches):
        if number % world == rank:
            result.append((position, microbatch))
        position += len(microbatch)
    return result
