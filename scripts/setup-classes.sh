#!/bin/sh
# Keeps Spark's classes as Java has them in memory in one file inside the virtual environment, so that a session
# starts with half the work. Does nothing when it is there; where it can't be made, Spark starts without.
set -eu

here=$(dirname "$0")
venv="${1:-$here/../.venv}"
exec "$venv/bin/python" -m lakemq.jobs.session.make_class_archive
