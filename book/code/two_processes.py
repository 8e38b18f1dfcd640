"""One batch norm in two processes: `python two_processes.py`, on any CPU, in a few seconds.

The rows of process 0 have mean 0, those of process 1 have mean 10.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def train(rank, folder, copied, steps=30):
    """Train in one of the two processes, and leave its running mean in the folder."""
    torch.manual_seed(rank)
    norm = nn.BatchNorm1d(1)
    model = DistributedDataParallel(norm, forward_sync_buffers=copied)
    for _ in range(steps):
        rows = torch.randn(256, 1) + 10 * rank
        real, fake = model(rows), model(-rows + 20 * rank)  # two forward passes
        (real.square().mean() + fake.mean()).backward()  # one backward pass
    torch.save(norm.running_mean, f"{folder}/{copied}{rank}")


def both(rank, folder):
    """Run process `rank`: buffers copied from process 0, and then kept apart."""
    torch.set_num_threads(1)
    address = f"file://{folder}/meet"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
    for copied in (True, False):
        train(rank, folder, copied)
    dist.destroy_process_group()


def main():
    """Return the running means of both processes, with buffers copied and kept apart."""
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(both, (folder,), nprocs=2)
        return {
            copied: [torch.load(f"{folder}/{copied}{rank}").item() for rank in range(2)]
            for copied in (True, False)
        }


if __name__ == "__main__":
    for copied, means in main().items():
        print(copied, *(f"{mean:z.1f}" for mean in means))
