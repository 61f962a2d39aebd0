#!/usr/bin/env bash
# Makes .venv from requirements.lock, with lakemq installed editable, then Java and Spark's jars.
#
# Needs Python 3.11 or newer and, where something is missing, the system's package manager. Done
# again it only compares a hash, so every target of the Makefile can begin with it.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
stamp=.venv/.lakemq-setup

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else fail "needs root, or sudo, for: $*"
  fi
}

have_python() {
  command -v "$python" >/dev/null || fail "needs Python 3.11 or newer; no $python found"
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
    || fail "needs Python 3.11 or newer; $python is $("$python" --version)"
}

have_ensurepip() {
  "$python" -c 'import ensurepip, venv' 2>/dev/null && return
  command -v apt-get >/dev/null || fail "$python has no ensurepip; install its venv package"
  say "installing python3-venv"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null
}

# Bytecode is compiled in the end, all at once: pip does it on one core.
pip_install() {
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile "$@"
}

# requirements.lock's entry of one package, or all the others.
lock_of() { awk -v name="$1" '/^[a-z]/ { mine = index($0, name "==") == 1 } mine' requirements.lock; }
lock_without() { awk -v name="$1" '/^[a-z]/ { mine = index($0, name "==") == 1 } !mine' requirements.lock; }

make_venv() {
  # A .venv made by another Python, or broken half-way, is made anew.
  .venv/bin/python -m pip --version >/dev/null 2>&1 || rm -rf .venv
  if [ ! -x .venv/bin/python ]; then
    have_ensurepip
    say "making .venv"
    "$python" -m venv .venv
  fi
}

install() {
  rm -f "$stamp"
  say "installing requirements.lock (some minutes the first time)"
  # First what builds the packages that come as source, so that no build downloads by itself.
  awk '/^[a-z]/ { builds = /^(pip|setuptools)==/ } builds' requirements.lock >.venv/builds.lock
  pip_install --require-hashes -r .venv/builds.lock
  # Spark comes as source, and takes about as long as all the others: the two side by side. The lock is
  # complete, and neither half is by itself.
  lock_of pyspark >.venv/spark.lock
  lock_without pyspark >.venv/others.lock
  pip_install --no-deps --require-hashes --no-build-isolation -r .venv/spark.lock &
  local spark=$!
  pip_install --no-deps --require-hashes --no-build-isolation -r .venv/others.lock
  wait "$spark"
  .venv/bin/python -m pip check >/dev/null || fail "requirements.lock is not complete: see .venv/bin/pip check"
  pip_install --no-deps --no-build-isolation --editable .
  compile_all .venv/lib
}

# With PYTHONDONTWRITEBYTECODE in the environment nobody would, and each start of a gateway would take
# seconds longer. Some packages bring a file that no Python 3 reads.
compile_all() {
  .venv/bin/python -m compileall -q -j 0 "$@" >/dev/null || true
}

wanted() {
  cat requirements.lock pyproject.toml "$0" | sha256sum | cut -d' ' -f1
  pwd # an editable install and the scripts in .venv hold the path of the folder
}

debian_programs() {
  local name
  for name in etcd promtool nginx; do scripts/setup-debian.sh "$name"; done
}

have_python
if [ "$(cat "$stamp" 2>/dev/null || true)" = "$(wanted)" ]; then
  scripts/setup-java.sh
  scripts/setup-fuse.sh
  debian_programs
  scripts/setup-chromium.sh
else
  make_venv
  { scripts/setup-java.sh && scripts/setup-fuse.sh && debian_programs && scripts/setup-chromium.sh; } & # apt waits for its network while pip works
  system=$!
  trap 'wait' EXIT # what runs beside ends with this, however that ends
  install
  wait "$system"
  wanted >"$stamp.new" && mv "$stamp.new" "$stamp"
  is_new=1
fi
compile_all lakemq tests benchmarks
scripts/setup-jars.sh
scripts/setup-classes.sh
[ -z "${is_new:-}" ] || say "done: .venv/bin/lakemq"
