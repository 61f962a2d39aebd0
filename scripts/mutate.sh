#!/usr/bin/env bash
# Mutation score of the log's format and recovery, and of the pure rules: mutmut changes the code in one small way
# after another, and the quick tests beside it must notice. Works on a copy, a file at a time; says what survived and
# the score.
#
#   scripts/mutate.sh             frame and recovery
#   scripts/mutate.sh mask scan   what these stand on
#   scripts/mutate.sh decide wheel due_slot …   these of the pure rules, with the tests of the same name
#
# The copies stay in $MUTATE_DIR, and a run goes on where the last one ended.
set -euo pipefail
cd "$(dirname "$0")/.."
here=$(pwd)
dir=${MUTATE_DIR:-${TMPDIR:-/tmp}/lakemq-mutate}
venv=$dir/venv
memory_kib=$((4 * 1024 * 1024))

# The tests of each: those that are quick, and about it.
tests_of() {
  case $1 in
    frame) echo "storage/segment/test_frame.py storage/segment/test_format_page.py" ;;
    recovery) echo "storage/log/test_recovery_says.py storage/log/test_recovery.py storage/log/test_torn_tail.py" ;;
    mask) echo "storage/segment/test_mask.py storage/segment/test_frame.py" ;;
    scan) echo "storage/segment/test_scan.py storage/log/test_recovery_says.py storage/log/test_torn_tail.py" ;;
    flush_mark) echo "storage/log/test_flush_mark.py storage/log/test_recovery_says.py" ;;
    torn) echo "storage/log/test_torn.py storage/log/test_torn_tail.py" ;;
    decide | wheel) echo "model/test_decide.py model/test_wheel.py" ;;
    delay | retry | transaction) echo "model/test_delay.py model/test_transaction.py model/test_decide.py" ;;
    *) if [ -f "tests/model/test_$1.py" ]; then echo "model/test_$1.py"; return; fi
      echo "mutate: no tests are named for $1" >&2; exit 2 ;;
  esac
}

source_of() {
  git ls-files "lakemq/storage/*/$1.py" "lakemq/model/$1.py"
}

install() {
  if ! cmp -s scripts/mutate-requirements.txt "$venv/installed" 2>/dev/null; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r scripts/mutate-requirements.txt
    # The tests run in mutmut's process: what lakemq needs comes from its own environment.
    echo "$here"/.venv/lib/python3*/site-packages >"$(echo "$venv"/lib/python3*/site-packages)/lakemq.pth"
    cp scripts/mutate-requirements.txt "$venv/installed"
  fi
}

mutate() {
  local name=$1 copy=$dir/$1 test
  mkdir -p "$copy"
  git ls-files -z --cached --others --exclude-standard lakemq tests conf docs pyproject.toml |
    xargs -0 cp --parents --preserve=timestamps --target-directory "$copy"
  {
    printf '[mutmut]\nsource_paths=lakemq\nalso_copy=\n    docs\nonly_mutate=\n    %s\n' "$(source_of "$name")"
    printf 'use_git_change_detection=false\ntimeout_multiplier=4\ntimeout_constant=5\n'
    printf 'pytest_add_cli_args=\n    -p\n    no:cacheprovider\n'
    # Each byte of a tail is cut there: seconds, which every mutant would take.
    printf '    --deselect=tests/storage/log/test_recovery.py::test_torn_tail_is_cut_at_any_byte\n'
    printf 'pytest_add_cli_args_test_selection=\n'
    for test in $(tests_of "$name"); do printf '    tests/%s\n' "$test"; done
  } >"$copy/setup.cfg"
  (
    cd "$copy"
    ulimit -v "$memory_kib"
    nice -n 10 "$venv/bin/mutmut" run --max-children 1 >run.txt 2>&1 || { tail -n 40 run.txt >&2; exit 1; }
    "$venv/bin/mutmut" results | grep survived || true
    "$venv/bin/mutmut" export-cicd-stats >/dev/null
  )
}

names=("$@")
if [ ${#names[@]} -eq 0 ]; then names=(frame recovery); fi
mkdir -p "$dir"
install
for name in "${names[@]}"; do mutate "$name"; done
"$venv/bin/python" - "$dir" "${names[@]}" <<'PYTHON'
import json, sys
from pathlib import Path

totals = {"killed": 0, "timeout": 0, "survived": 0, "no_tests": 0, "total": 0}
for name in [*sys.argv[2:], "all"]:
    if name != "all":
        found = json.loads((Path(sys.argv[1]) / name / "mutants/mutmut-cicd-stats.json").read_text())
        found = {key: found[key] for key in totals}
        totals = {key: totals[key] + found[key] for key in totals}
    else:
        found = totals
    counts = ", ".join(f"{count} {key}" for key, count in found.items())
    print(f"{name}: {counts}: {(found['killed'] + found['timeout']) / found['total']:.1%}")
PYTHON
