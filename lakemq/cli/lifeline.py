"""A child process that must not outlive its parent, even when the parent is killed."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def end_with_parent(parent_pid: int | None, by: signal.Signals = signal.SIGTERM) -> None:
    """Have the kernel send the signal `by` to this process when its parent ends, however it ends.

    None: this process stands alone. A parent that ended before the call ends this process now.
    SIGKILL is for processes that may take long to stop, and lose nothing when they don't.
    Linux only; elsewhere a killed parent leaves its children to be stopped by hand.
    """
    if parent_pid is None or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, by)
    if os.getppid() != parent_pid:
        sys.exit(1)
