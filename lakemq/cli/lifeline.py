"""A child process that must not outlive its parent, even when the parent is killed."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def end_with_parent(parent_pid: int | None) -> None:
    """Have the kernel send SIGTERM to this process when its parent ends, however it ends.

    None: this process stands alone. A parent that ended before the call ends this process now.
    Linux only; elsewhere a killed parent leaves its children to be stopped by hand.
    """
    if parent_pid is None or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent_pid:
        sys.exit(1)
