#!/bin/sh
# Gets the library that draws the diagrams of the documentation's site, by version and hash, from the npm registry that
# this machine is set up for, into docs/site. It is committed, so only a change of the version needs this: then the hash
# here changes too, and those in docs/site/versions.json, which tests/docs/test_site.py compares with the files.
set -eu
cd "$(dirname "$0")/.."

package=@mermaid-js/tiny
version=11.17.2
hash=PmFr1c5cSfNf5AngLLR98DrbvR4U5KeD7I+hQkGqG5w5Veu3QT4dG0qu9f99cpn/sKj2XxRBK0q7EL6hr9NY/A==

target=$(pwd)/docs/site
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

(cd "$scratch" && npm pack --silent "$package@$version" >/dev/null)
found=$(openssl dgst -sha512 -binary "$scratch"/*.tgz | base64 -w 0)
if [ "$found" != "$hash" ]; then
    echo "docs-vendor: $package $version has the hash $found, not $hash" >&2
    exit 1
fi
tar -xzf "$scratch"/*.tgz -C "$scratch" --strip-components 1
cp "$scratch/dist/mermaid.tiny.js" "$target/mermaid.tiny.js"
cp "$scratch/LICENSE" "$target/mermaid.LICENSE"
(cd "$target" && sha256sum mermaid.LICENSE mermaid.tiny.js)
