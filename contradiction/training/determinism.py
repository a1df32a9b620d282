"""What equal seeds promise, and the switch that makes a GPU keep the promise too."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def deterministic(wanted: bool) -> Iterator[None]:
    """Inside the block torch uses deterministic algorithms only; without ``wanted`` nothing changes.

    - On a CPU equal requests give equal bytes with or without it, given the same kind of CPU, the same number of
      threads and the same versions.
    - On a GPU some kernels add up in an order that differs from run to run. With it they are replaced by slower ones
      that do not, and equal requests give equal bytes on the same kind of GPU; an operation that has no such kernel
      stops the run.
    - With another number of processes sums are taken in another order and dropout draws other masks: curves then agree
      in tendency, without dropout within rounding, and never in their bytes.
    """
    if not wanted:
        yield
        return
    import torch

    algorithms = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    cudnn = torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark
    # cuBLAS reads it once, at its first use in the process.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(algorithms, warn_only=warn_only)
        torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = cudnn
