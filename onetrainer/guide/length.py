"""How many steps a number of images takes, and what that is for each of them."""

PER_IMAGE = 100
"""How often each image is trained. A rule of thumb of the field: OneTrainer's 100 epochs, and the
hundred steps for each image that guides to DreamBooth name at batch size 1."""
LEAST = 400
"""Steps in which a learning rate as presets have it changes a model enough to be seen."""
_MULTIPLE, _OFTEN = 50, 25


def steps_for(images: int, *, at_once: int, most: int) -> int:
    """Return the steps that train each image about `PER_IMAGE` times.

    at_once: Images in a step. most: The steps of the preset, made for as many images as are usual.
    """
    wanted = -(-images * PER_IMAGE // (at_once * _MULTIPLE)) * _MULTIPLE
    return min(max(wanted, LEAST), most)


def interval_for(every: int, *, steps: int, of: int) -> int:
    """Return the interval that comes as often in `steps` as `every` in `of`; 0 stays never."""
    return (
        every if steps >= of or not every else max(1, round(every * steps / of / _OFTEN)) * _OFTEN
    )


def length_reason(steps: int, *, images: int, at_once: int) -> str:
    """Return what a length is for each image: "10 images × about 100 each, 2 at a time"."""
    each = float(f"{steps * at_once / images:.2g}")
    text = f"{images:,} image{'' if images == 1 else 's'} × about {each:,.10g} each"
    return f"{text}, {at_once} at a time" if at_once > 1 else text
