"""In place of a resolver: fails, and says with which options Java would run."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    sys.exit(f"options: {os.environ.get('SPARK_SUBMIT_OPTS')}")
