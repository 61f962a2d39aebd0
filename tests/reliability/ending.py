"""Parts that end in all ways: `python -m tests.reliability.ending`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.reliability.parts import Done, Part, main


def well(seed: int, seconds: float) -> Done:
    return Done({"done": 1, "seed": seed})


def finds(seed: int, seconds: float) -> Done:
    return Done({"done": 1}, [f"seed {seed} is odd"])


def raises(seed: int, seconds: float) -> Done:
    raise ValueError(f"seed {seed}")


def ends(seed: int, seconds: float) -> Done:
    sys.stderr.write("no more\n")
    sys.stderr.flush()
    os._exit(3)


def dies(seed: int, seconds: float) -> Done:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def hangs(seed: int, seconds: float) -> Done:
    child = subprocess.Popen(["sleep", "1000"])
    sys.stderr.write(f"child {child.pid}\n")
    sys.stderr.flush()
    if "CHILD" in os.environ:
        files = Path(os.environ["CHILD"])
        files.with_suffix(".new").write_text(str(child.pid))
        files.with_suffix(".new").rename(files)
    time.sleep(1_000)
    return Done({})


PARTS = {
    "well": Part("well", well, "done", 2),
    "finds": Part("finds", finds, "failed", 1),
    "raises": Part("raises", raises, "failed", 1),
    "ends": Part("ends", ends, "failed", 1),
    "dies": Part("dies", dies, "failed", 1),
    "hangs": Part("hangs", hangs, "failed", 1),
}

if __name__ == "__main__":
    raise SystemExit(main("tests.reliability.ending", __doc__ or "", PARTS))
