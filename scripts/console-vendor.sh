#!/bin/sh
# Gets the console's two libraries of JavaScript, by version and hash, from the npm registry that this machine is set up
# for, into lakemq/console/static/vendor. They are committed, so nobody needs this but who changes a version: then the
# hashes here, and in versions.json, which tests/console/test_vendor.py compares with the files, change too.
set -eu
cd "$(dirname "$0")/.."

target=$(pwd)/lakemq/console/static/vendor
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# package, version, sha512 of the package in base64
get() {
    (cd "$scratch" && npm pack --silent "$1@$2" >/dev/null)
    found=$(openssl dgst -sha512 -binary "$scratch/$1-$2.tgz" | base64 -w 0)
    if [ "$found" != "$3" ]; then
        echo "console-vendor: $1 $2 has the hash $found, not $3" >&2
        exit 1
    fi
    mkdir -p "$scratch/$1"
    tar -xzf "$scratch/$1-$2.tgz" -C "$scratch/$1" --strip-components 1
}

get htmx.org 2.0.11 Thx/WtpeOQqSrqBCw/A1cwGJGg4UrVa3+sW0GmrM3p4gJgO89ecH4qtbnyzDDWFvBTqjnIMCgELTNt636dtamA==
get uplot 1.6.32 KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==

cp "$scratch/htmx.org/dist/htmx.min.js" "$target/htmx.min.js"
cp "$scratch/htmx.org/LICENSE" "$target/htmx.LICENSE"
cp "$scratch/uplot/dist/uPlot.iife.min.js" "$target/uplot.min.js"
cp "$scratch/uplot/dist/uPlot.min.css" "$target/uplot.min.css"
cp "$scratch/uplot/LICENSE" "$target/uplot.LICENSE"
(cd "$target" && sha256sum htmx.LICENSE htmx.min.js uplot.LICENSE uplot.min.css uplot.min.js)
