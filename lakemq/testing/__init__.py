"""What tests of lakemq use, and tests of programs that use lakemq: a broker in memory, a real gateway or name server in
a process of its own, a clock that is set by hand, and files that fail on demand or lose power."""

from __future__ import annotations

from lakemq.testing.clocks import ManualClock, ShiftedClock
from lakemq.testing.faulty_files import FaultyFiles
from lakemq.testing.gateway_process import GatewayProcess, start_gateway
from lakemq.testing.lossy_files import LossyFiles
from lakemq.testing.memory_broker import MemoryBroker
from lakemq.testing.memory_files import MemoryFiles
from lakemq.testing.nameserver_process import NameServerProcess, start_nameserver

__all__ = [
    "FaultyFiles",
    "GatewayProcess",
    "LossyFiles",
    "ManualClock",
    "MemoryBroker",
    "MemoryFiles",
    "NameServerProcess",
    "ShiftedClock",
    "start_gateway",
    "start_nameserver",
]
