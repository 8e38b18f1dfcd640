"""What the picture of depth shows: streams and gradients of Transformers that are not trained.

    python -m press.site.depths

writes press/site/templates/pictures/depth.json, in about a quarter of a minute. The numbers are
kept, because no page computes all of them; tests/press/site/pictures/test_depth.py measures some
again.
"""

import json
from statistics import median
from typing import Any, get_args

import torch

from normkit import data
from normkit.experiments import gradient_norms, summary
from normkit.placement import CharacterTransformer, Placement
from press.files import write
from press.site import HERE

FILE = HERE / "templates/pictures/depth.json"
DEPTHS, SEEDS = (2, 4, 8, 16, 32, 64), (0, 1, 2)


def measure(placement: Placement, layers: int) -> dict[str, list[float]]:
    """Return medians over the seeds, all with three digits.

    variance: of the features of a token in the residual stream, before the first layer and after
    each. sum: of what the last norm of each layer gets, where it is the stream that it normalises.
    gradient: its norm, for the second feed-forward matrix of each layer.
    """
    runs = [streams(placement, layers, seed) for seed in SEEDS]
    rows = gradient_norms([placement], [layers], SEEDS)
    found = {
        "variance": [median(values) for values in zip(*(run[0] for run in runs), strict=True)],
        "sum": [median(values) for values in zip(*(run[1] for run in runs), strict=True)],
        "gradient": [row["median"] for row in summary(rows, of="gradient", by=["layer"])],
    }
    return {name: [float(f"{v:.3g}") for v in values] for name, values in found.items()}


def streams(placement: Placement, layers: int, seed: int) -> tuple[list[float], list[float]]:
    """Return the variances of the stream, and of the sums that are normalised."""
    names = data.french_names()
    characters = data.vocabulary(names)
    text = torch.from_numpy(data.stream(data.split(names)[0], characters))
    torch.manual_seed(seed)
    model = CharacterTransformer(len(characters), layers=layers, placement=placement)
    generator = torch.Generator().manual_seed(seed)
    starts = torch.randint(len(text) - model.length, (32, 1), generator=generator)
    sums: list[float] = []
    halves: list[Any] = list(model.blocks)[1::2] if placement in ("post", "deep") else []
    for block in halves:
        block.norm_after.register_forward_pre_hook(lambda _, given: sums.append(spread(given[0])))
    with torch.no_grad():
        x = model.characters(text[starts + torch.arange(model.length)]) + model.positions.weight
        after = [x, *(x := block(x) for block in model.blocks)][::2]
    return [spread(x) for x in after], sums


def spread(x: torch.Tensor) -> float:
    """The variance of the features, as the mean over all tokens."""
    return x.var(dim=-1, correction=0).mean().item()


def main() -> None:
    """Measure everything, and write it out."""
    torch.set_num_threads(1)
    found = {
        placement: {str(layers): measure(placement, layers) for layers in DEPTHS}
        for placement in get_args(Placement)
        if placement != "output"
    }
    told = {"made": "python -m press.site.depths", "depths": DEPTHS, "found": found}
    write(FILE, (json.dumps(told, separators=(",", ":")) + "\n").encode())


if __name__ == "__main__":
    main()
