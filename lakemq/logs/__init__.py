"""The log of each of lakemq's processes: its forms, what is written how often, and which levels there are."""

from __future__ import annotations

from lakemq.logs.levels import LEVELS as LEVELS
from lakemq.logs.set_up import say as say
from lakemq.logs.set_up import set_up as set_up
