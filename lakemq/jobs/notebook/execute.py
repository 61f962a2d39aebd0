"""Runs a notebook in a Python of its own."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat.v4 import new_code_cell

from lakemq.jobs.errors import NotebookFailed
from lakemq.jobs.notebook.to_jupyter import LINE
from lakemq.model.environment import BROKER, NOTEBOOK
from lakemq.settings import Settings

CELL_S_MAX = 600
START_S_MAX = 120
_START_CELL = "from lakemq.jobs.notebook.kernel import start\nstart(get_ipython())"
_KERNEL = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}", "--HistoryManager.enabled=False"]


class _ThisPython(AsyncKernelManager):
    """A kernel of the Python that runs this, whatever kernels are installed for the user."""

    @property
    def kernel_spec(self) -> KernelSpec:
        return KernelSpec(argv=_KERNEL, display_name="Python 3", language="python")


def execute(
    notebook: nbformat.NotebookNode,
    settings: Settings,
    broker_url: str,
    *,
    folder: Path,
    cell_s_max: int = CELL_S_MAX,
    say: Callable[[str], None] = lambda line: None,
) -> None:
    """Runs the cells in their order, in `folder`, and leaves their outputs in the notebook.

    The notebook finds `spark`, `display` and `%sql`, and the broker's address in `LAKEMQ_BROKER`.
    `say` is told where the session comes from, and each cell that begins. Raises `NotebookFailed` with
    the cell that failed, or took more than `cell_s_max` seconds; the outputs up to there are in the
    notebook then, the error with them.
    """
    begin = new_code_cell(_START_CELL)
    at = "its start"
    with tempfile.TemporaryDirectory() as own:
        # Sockets in a folder of one's own: nobody else on this machine can reach the notebook's process.
        kernel = _ThisPython(transport="ipc", ip=f"{own}/kernel", connection_file=f"{own}/kernel.json")
        client = NotebookClient(notebook, km=kernel, timeout=START_S_MAX, startup_timeout=START_S_MAX)
        environment = _environment(settings, broker_url, own)
        try:
            with client.setup_kernel(env=environment, cwd=str(folder), cleanup_kc=True):
                _start(client, begin)
                for line in _printed(begin):
                    say(line)
                client.timeout = cell_s_max
                for number, cell in enumerate(notebook.cells, 1):
                    at = f"cell {number}, line {cell.metadata.get(LINE, '?')}"
                    say(f"cell {number} of {len(notebook.cells)}")
                    client.execute_cell(cell, number - 1, execution_count=client.code_cells_executed + 1)
        except CellExecutionError as error:
            raise NotebookFailed(f"{at}: {error.ename}: {error.evalue}") from None
        except CellTimeoutError:
            raise NotebookFailed(f"{at}: it took more than {client.timeout} s") from None
        except (DeadKernelError, RuntimeError) as error:
            raise NotebookFailed(f"{at}: its process ended: {error}") from None


def has_begun(notebook: nbformat.NotebookNode) -> bool:
    """Whether a cell of it has been run, so that there is something to keep."""
    return any("execution" in cell.metadata for cell in notebook.cells)


def _start(client: NotebookClient, begin: nbformat.NotebookNode) -> None:
    """Runs a cell that is no part of the notebook, though nbclient puts each that it has run in there."""
    client.nb.cells.append(begin)
    try:
        client.execute_cell(begin, len(client.nb.cells) - 1, store_history=False)
    finally:
        client.nb.cells.pop()


def _printed(cell: nbformat.NotebookNode) -> list[str]:
    """The lines that a cell has written to stdout: what a JVM says while it starts is on stderr."""
    text = "".join(output.text for output in cell.outputs if output.get("name") == "stdout")
    return list[str](text.splitlines())


def _environment(settings: Settings, broker_url: str, own: str) -> dict[str, str]:
    """What the notebook's process is started with; nothing of the user's profile of IPython."""
    lake = settings.lake.model_copy(update={"dir": settings.lake.dir.absolute()})
    given: dict[str, Any] = {
        NOTEBOOK: settings.model_copy(update={"lake": lake}).model_dump_json(),
        BROKER: broker_url,
        "IPYTHONDIR": own,
    }
    return {**os.environ, **given}
