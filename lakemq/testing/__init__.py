"""What tests of lakemq use, and tests of programs that use lakemq: a real gateway in a process of
its own, a clock that is set by hand, and files that fail on demand."""

from __future__ import annotations

from lakemq.testing.clocks import ManualClock, ShiftedClock
from lakemq.testing.faulty_files import FaultyFiles
from lakemq.testing.gateway_process import GatewayProcess, start_gateway

__all__ = ["FaultyFiles", "GatewayProcess", "ManualClock", "ShiftedClock", "start_gateway"]
