#!/bin/sh
# Environments made of requirements.lock, each package by its version and hash:
#
#   install-wheel.sh tools FOLDER                 what builds and installs: uv, hatchling, setuptools
#   install-wheel.sh wheel FOLDER WHEEL EXTRAS    lakemq from its wheel, with these extras ("" for the client alone)
#
# `wheel` needs uv, of `tools` in /usr/local/build, or where UV says.
set -eu

lock=$(dirname "$0")/../requirements.lock

# The lock's entries of these packages alone.
of_lock() {
    awk -v wanted=" $* " '/^[a-z]/ { mine = index(wanted, " " substr($0, 1, index($0, "==") - 1) " ") > 0 } mine' "$lock"
}

case $1 in
tools)
    python3 -m venv "$2"
    of_lock uv hatchling packaging pathspec pluggy tomlkit trove-classifiers setuptools >"$2/tools.lock"
    "$2/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r "$2/tools.lock"
    ;;
wheel)
    uv=${UV:-/usr/local/build/bin/uv}
    python3 -m venv --without-pip "$2"
    case $4 in
    *jobs* | *all*) # pyspark comes as source: what builds it is locked too
        of_lock setuptools >"$2/builds.lock"
        "$uv" pip install --quiet --python "$2/bin/python" --require-hashes --requirements "$2/builds.lock"
        set -- "$@" --no-build-isolation
        ;;
    esac
    folder=$2 wheel=$3 extras=$4
    shift 4
    "$uv" pip install --quiet --python "$folder/bin/python" --constraints "$lock" "$@" \
        "lakemq${extras:+[$extras]} @ file://$(readlink -f "$wheel")"
    ;;
*)
    echo "install-wheel.sh: tools FOLDER, or wheel FOLDER WHEEL EXTRAS" >&2
    exit 2
    ;;
esac
