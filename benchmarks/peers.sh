#!/bin/bash
# The measures of other brokers that ours are compared with, one JSON line each on stdout.
# PEERS names the folder of their harness (with its bench.sh). DUR and WARM are seconds a measure.
# `peers.sh routing [--quick]`: only those that delays and transactions are compared with.
set -u
if [ -z "${PEERS:-}" ] || [ ! -f "$PEERS/bench.sh" ]; then
  echo "PEERS is not set to a folder with bench.sh: the peers are skipped" >&2
  exit 0
fi
if [ "${1:-}" = routing ]; then
  # OFF: seconds of each of RocketMQ's own tools, of which one is for transactions.
  if [ "${2:-}" = --quick ]; then export SMOKE=1 OFF=13 WARM=${WARM:-1}; else export OFF=${OFF:-25} WARM=${WARM:-5}; fi
  export DUR=${DUR:-$([ "${SMOKE:-0}" = 1 ] && echo 3 || echo 15)} CONC=${CONC:-32}
  unshare -n true 2>/dev/null || export NETNS=0
  ONLY="delay txn official" timeout 600 bash "$PEERS/bench.sh" rocketmq async
  ONLY=delay timeout 300 bash "$PEERS/bench.sh" elasticmq async
  exit
fi
export DUR=${DUR:-10} WARM=${WARM:-5} MAXSEC=${MAXSEC:-40} N=${N:-1000000} CONC=${CONC:-64} BATCH_C=${BATCH_C:-"1 4"}
unshare -n true 2>/dev/null || export NETNS=0
bash "$PEERS/bench.sh" disk
for peer in ${BROKERS:-kafka rocketmq rocketmq-proxy nats redis}; do
  ONLY="batch single consume e2e" timeout 600 bash "$PEERS/bench.sh" "$peer" async
  ONLY="single e2e" timeout 300 bash "$PEERS/bench.sh" "$peer" sync
done
