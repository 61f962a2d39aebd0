#!/bin/sh
# Gets the jars of Delta, of the bare local file system and of S3A once, into the virtual environment, so
# that a session starts without a resolver and without a network. Spark's own package resolution
# chooses the versions that match the installed pyspark and delta-spark. Does nothing when they
# are there; those of S3A, which only a lake in a bucket needs, may be lacking. Jars that are not what they
# should be are an error.
set -eu

here=$(dirname "$0")
venv="${1:-$here/../.venv}"
exec "$venv/bin/python" -m lakemq.jobs.session.setup_jars
