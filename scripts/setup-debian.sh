#!/bin/sh
# Gets a program of Debian's for the tests that need it, into .venv: unpacked, not installed, as an installed one would
# start by itself.
#
#   setup-debian.sh etcd | promtool | nginx
#
# Does nothing where there is one, and needs no root: where the machine's lists of packages are missing or old, it gets
# its own. Where there is no such program to be had, it says what is done without, and that is no error.
set -eu
cd "$(dirname "$0")/.."

case "${1-}" in
etcd) package=etcd-server program=usr/bin/etcd without="tests that need an etcd will be skipped" ;;
promtool) package=prometheus program=usr/bin/promtool without="tests that need promtool will fail, or be skipped" ;;
nginx) package=nginx program=usr/sbin/nginx without="tests of a proxy in front will be skipped" ;;
*)
    echo "setup-debian.sh: etcd, promtool or nginx" >&2
    exit 2
    ;;
esac
name=$1

if command -v "$name" >/dev/null 2>&1 || [ -x ".venv/$name/$program" ]; then
    exit 0
fi
if ! command -v apt-get >/dev/null 2>&1 || ! command -v dpkg-deb >/dev/null 2>&1; then
    echo "setup-debian: there is no $name, and no apt-get to get it with; $without" >&2
    exit 0
fi

echo "setup-debian: unpacking $name" >&2
scratch=$PWD/.venv/$name.new
trap 'rm -rf "$scratch"' EXIT
download() {
    rm -f "$scratch"/*.deb
    (cd "$scratch" && apt-get -qq -o APT::Sandbox::User=root "$@" download "$package" >/dev/null 2>&1)
}
with_own_lists() {
    set -- -o Dir::State::Lists="$scratch/lists" -o Dir::Cache="$scratch/cache"
    apt-get -qq -o APT::Sandbox::User=root "$@" update >/dev/null 2>&1 && download "$@"
}
rm -rf "$scratch"
mkdir -p "$scratch/lists/partial" "$scratch/cache/archives/partial" "$scratch/made"
for attempt in 1 2 3; do
    if download || with_own_lists; then
        break
    fi
    [ "$attempt" -eq 3 ] || sleep $((attempt * 5))
done
if dpkg-deb --fsys-tarfile "$scratch"/*.deb 2>/dev/null | tar -x -C "$scratch/made" "./$program" 2>/dev/null; then
    rm -rf ".venv/$name"
    mv "$scratch/made" ".venv/$name"
else
    echo "setup-debian: apt-get failed; $without" >&2
fi
