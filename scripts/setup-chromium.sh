#!/bin/sh
# Installs Debian's Chromium for the tests of the console. Does nothing where there is one. Tests that need it are skipped
# where it can't be had, and say so.
set -eu

if command -v chromium >/dev/null 2>&1; then
    exit 0
fi
if ! command -v apt-get >/dev/null 2>&1; then
    echo "setup-chromium: there is no chromium, and no apt-get; the console's tests in a browser will be skipped" >&2
    exit 0
fi
as_root=""
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
        echo "setup-chromium: there is no chromium; the console's tests in a browser will be skipped unless root says: apt-get install chromium" >&2
        exit 0
    fi
    as_root="sudo"
fi

echo "setup-chromium: installing chromium" >&2
export DEBIAN_FRONTEND=noninteractive
for attempt in 1 2 3; do
    if $as_root apt-get update -qq && $as_root apt-get install -y -qq --no-install-recommends \
        chromium >/dev/null; then
        exit 0
    fi
    echo "setup-chromium: apt-get failed (attempt $attempt of 3)" >&2
    sleep $((attempt * 5))
done
echo "setup-chromium: apt-get failed; the console's tests in a browser will be skipped" >&2
