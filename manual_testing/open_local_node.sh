#!/usr/bin/env bash
# Starts one node of this machine in this terminal.
#   open_local_node.sh [PORT] [BOOTSTRAP]     open_local_node.sh 4001 127.0.0.1:4000
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

port="${1:-4000}"
bootstrap="${2:-}"
if [[ ! "$port" =~ ^[0-9]+$ ]]; then
    echo "usage: $0 [PORT] [BOOTSTRAP as ip:port]" >&2
    exit 2
fi

flnet=.venv/bin/flnet
[ -x "$flnet" ] || flnet="$(command -v flnet)" || { echo "flnet is not installed; run: make venv" >&2; exit 1; }

exec "$flnet" run --node-port "$port" --node-id "${FLNET_NODE_ID:-NODE_$((port - 3999))}" \
    ${bootstrap:+--bootstrap-pairs "$bootstrap"}
