#!/bin/bash
# The measures of other brokers that ours are compared with, one JSON line each on stdout.
# PEERS names the folder of their harness (with its bench.sh). DUR and WARM are seconds a measure.
set -u
if [ -z "${PEERS:-}" ] || [ ! -f "$PEERS/bench.sh" ]; then
  echo "PEERS is not set to a folder with bench.sh: the peers are skipped" >&2
  exit 0
fi
export DUR=${DUR:-10} WARM=${WARM:-5} MAXSEC=${MAXSEC:-40} N=${N:-1000000} CONC=${CONC:-64} BATCH_C=${BATCH_C:-"1 4"}
unshare -n true 2>/dev/null || export NETNS=0
bash "$PEERS/bench.sh" disk
for peer in ${BROKERS:-kafka rocketmq rocketmq-proxy nats redis}; do
  ONLY="batch single consume e2e" timeout 600 bash "$PEERS/bench.sh" "$peer" async
  ONLY="single e2e" timeout 300 bash "$PEERS/bench.sh" "$peer" sync
done
