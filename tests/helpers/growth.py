"""How the time of a function grows with its input, on a machine that may be busy."""

import time


def growth(work, make, size, times=4):
    """How many times the processor time of an input is that of one which is `times` smaller: about `times` if linear.

    Args:
        work: is called with the inputs.
        make: makes an input of a size.
        size: the smaller size.
        times: the larger size is so many times the smaller one.
    """
    small, large = (min(_seconds(work, make(each)) for _ in range(5)) for each in (size, size * times))
    return large / small


def _seconds(work, given):
    began = time.process_time()
    work(given)
    return time.process_time() - began
