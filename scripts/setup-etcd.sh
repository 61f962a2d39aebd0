#!/bin/sh
# Gets Debian's etcd for the tests of who leads, into .venv/etcd: it is unpacked, not installed, as an installed one
# starts by itself. Does nothing where there is one. Tests that need it are skipped where it can't be had, and say so.
set -eu
cd "$(dirname "$0")/.."

if command -v etcd >/dev/null 2>&1 || [ -x .venv/etcd/usr/bin/etcd ]; then
    exit 0
fi
if ! command -v apt-get >/dev/null 2>&1 || ! command -v dpkg-deb >/dev/null 2>&1; then
    exit 0
fi
as_root=""
if [ "$(id -u)" -ne 0 ] && command -v sudo >/dev/null 2>&1; then
    as_root="sudo"
fi

echo "setup-etcd: unpacking etcd-server" >&2
scratch=.venv/etcd.new
download() {
    rm -rf "$scratch"
    mkdir -p "$scratch"
    (cd "$scratch" && apt-get download -qq -o APT::Sandbox::User=root etcd-server >/dev/null 2>&1)
}
for attempt in 1 2 3; do
    download && break
    $as_root apt-get update -qq || sleep $((attempt * 5))
done
if dpkg-deb -x "$scratch"/etcd-server_*.deb "$scratch" 2>/dev/null; then
    rm -rf "$scratch"/*.deb .venv/etcd
    mv "$scratch" .venv/etcd
else
    rm -rf "$scratch"
    echo "setup-etcd: apt-get failed; tests that need an etcd will be skipped" >&2
fi
