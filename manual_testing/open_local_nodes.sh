#!/usr/bin/env bash
# Starts N nodes of this machine in panes of one tmux session, each with its shard of the data.
#   open_local_nodes.sh [N]          ports 4000, 4001, ...; end with: tmux kill-session -t flnet
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

count="${1:-3}"
session="${SESSION:-flnet}"
first_port="${FIRST_PORT:-4000}"
if [[ ! "$count" =~ ^[1-9][0-9]?$ ]]; then
    echo "usage: $0 [N from 1 to 99]" >&2
    exit 2
fi
command -v tmux >/dev/null || { echo "tmux is missing; start nodes one by one with open_local_node.sh" >&2; exit 1; }
if tmux has-session -t "=$session" 2>/dev/null; then
    echo "a session $session runs already; end it with: tmux kill-session -t $session" >&2
    exit 1
fi

# One state folder per start, so that trying things out never touches a real node of this machine.
states="$(mktemp -d "${TMPDIR:-/tmp}/flnet-manual-XXXXXX")"

node_command() { # index from 0
    local port=$((first_port + $1)) bootstrap=""
    [ "$1" -eq 0 ] || bootstrap="127.0.0.1:$first_port"
    printf 'env FLNET_DATA_SHARD=%q FLNET_STATE_PATH=%q ./open_local_node.sh %q %q; echo "ended; Enter closes"; read -r' \
        "$(($1 + 1))/$count" "$states/node-$port" "$port" "$bootstrap"
}

tmux new-session -d -s "$session" -x 200 -y 60 "$(node_command 0)"
for ((i = 1; i < count; i++)); do
    tmux split-window -t "=$session:" "$(node_command "$i")"
    tmux select-layout -t "=$session:" tiled >/dev/null
done
echo "state folders: $states"
if [ -t 1 ]; then
    exec tmux attach-session -t "=$session"
fi
echo "look at the nodes with: tmux attach -t $session; end them with: tmux kill-session -t $session"
