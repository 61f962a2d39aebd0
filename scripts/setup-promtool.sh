#!/bin/sh
# Gets promtool for the tests of metrics and alerts, of Debian's prometheus, into .venv/promtool: it is unpacked, not
# installed, as an installed one would start a server. Does nothing where there is one.
set -eu
cd "$(dirname "$0")/.."

if command -v promtool >/dev/null 2>&1 || [ -x .venv/promtool ]; then
    exit 0
fi
if ! command -v apt-get >/dev/null 2>&1 || ! command -v dpkg-deb >/dev/null 2>&1; then
    exit 0
fi
as_root=""
if [ "$(id -u)" -ne 0 ] && command -v sudo >/dev/null 2>&1; then
    as_root="sudo"
fi

echo "setup-promtool: unpacking promtool of prometheus" >&2
scratch=.venv/promtool.new
download() {
    rm -rf "$scratch"
    mkdir -p "$scratch"
    (cd "$scratch" && apt-get download -qq -o APT::Sandbox::User=root prometheus >/dev/null 2>&1)
}
for attempt in 1 2 3; do
    download && break
    $as_root apt-get update -qq || sleep $((attempt * 5))
done
if dpkg-deb --fsys-tarfile "$scratch"/prometheus_*.deb 2>/dev/null | tar -x -C "$scratch" ./usr/bin/promtool; then
    mv "$scratch/usr/bin/promtool" .venv/promtool
else
    echo "setup-promtool: apt-get failed; the tests that need promtool will fail" >&2
fi
rm -rf "$scratch"
