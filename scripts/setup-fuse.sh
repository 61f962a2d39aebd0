#!/bin/sh
# Gets Debian's fuse3 for the tests that cut the power of whole processes, where the kernel has FUSE and there
# is an apt-get. Those tests are skipped, and say so, where it can't be had: nothing else needs it.
set -eu

if [ ! -c /dev/fuse ] || ! command -v apt-get >/dev/null 2>&1; then
    exit 0
fi
if command -v fusermount3 >/dev/null 2>&1 && ls /usr/lib/*/libfuse3.so.3* /lib/*/libfuse3.so.3* >/dev/null 2>&1; then
    exit 0
fi
as_root=""
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null 2>&1 || exit 0
    as_root="sudo"
fi

echo "setup-fuse: installing fuse3" >&2
export DEBIAN_FRONTEND=noninteractive
if ! { $as_root apt-get update -qq && $as_root apt-get install -y -qq --no-install-recommends fuse3 >/dev/null; }; then
    echo "setup-fuse: apt-get failed; tests that cut the power of whole processes will be skipped" >&2
fi
