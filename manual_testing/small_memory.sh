#!/usr/bin/env bash
# Does one round on a node that has little memory, and says how much the node and its training child took.
#   small_memory.sh [TRAINER...]     MNIST and MULTI_LABEL if none is named, one after the other
#   LIMIT_MB=1024                    for the node and its children together; the smallest that is tried here
#   HOW=cgroup|systemd|ulimit        instead of the first of them that this machine allows
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

limit_mb="${LIMIT_MB:-1024}"
port="${PORT:-4090}"
[ $# -gt 0 ] || set -- MNIST MULTI_LABEL
if [[ ! "$limit_mb" =~ ^[1-9][0-9]*$ ]]; then
    echo "LIMIT_MB must be a number of megabytes, got: $limit_mb" >&2
    exit 2
fi

flnet="${FLNET:-.venv/bin/flnet}"
[ -x "$flnet" ] || flnet="$(command -v flnet)" || { echo "flnet is not installed; run: make venv" >&2; exit 1; }
work="$(mktemp -d "${TMPDIR:-/tmp}/flnet-memory-XXXXXX")"
node="" group="" version="" how=""

end_node() {
    [ -z "$node" ] || { kill "$node" 2>/dev/null && wait "$node"; } || true
    # The node ends its child; a group can go only when its last process has.
    if [ -n "$group" ]; then
        for _ in $(seq 50); do rmdir "$group" 2>/dev/null && break; sleep 0.1; done
    fi
    node="" group=""
}
trap 'end_node; rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# A group below our own, so that a limit that holds for us holds for the node too.
make_group() {
    local own parent
    if own="$(awk -F: '$2 == "memory" {print $3}' /proc/self/cgroup)" && [ -n "$own" ]; then
        version=1 parent="/sys/fs/cgroup/memory${own%/}"
        [ -d "$parent" ] || parent=/sys/fs/cgroup/memory
    elif grep -qw memory /sys/fs/cgroup/cgroup.subtree_control 2>/dev/null; then
        version=2 parent=/sys/fs/cgroup  # below another group, version 2 wants all its processes moved away
    else
        return 1
    fi
    mkdir "$parent/flnet-memory-$$" 2>/dev/null || return 1
    group="$parent/flnet-memory-$$"
    local bytes=$((limit_mb * 1024 * 1024))
    if [ "$version" = 1 ]; then
        echo "$bytes" >"$group/memory.limit_in_bytes" || return 1
        # No way out into swap, where the kernel counts it.
        [ ! -w "$group/memory.memsw.limit_in_bytes" ] || echo "$bytes" >"$group/memory.memsw.limit_in_bytes"
    else
        echo "$bytes" >"$group/memory.max" && echo 0 >"$group/memory.swap.max"
    fi
}

choose_how() { # sets how, and makes the group if that is a group
    how="${HOW:-}"
    case "$how" in
    cgroup)
        make_group || { echo "no memory group can be made here; that takes root" >&2; exit 1; }
        ;;
    "")
        if [ "$(id -u)" = 0 ] && make_group; then
            how=cgroup
        elif systemd-run --user --scope --quiet -p MemoryMax="${limit_mb}M" true 2>/dev/null; then
            how=systemd
        else
            how=ulimit
        fi
        ;;
    esac
}

start_node() { # trainer
    local run=("$flnet" run --config /dev/null --node-id SMALL --node-port "$port" --trainers "$1" --state-path "$work/$1")
    if [ "$1" = MULTI_LABEL ] && [ -z "${FLNET_DATASETS_PATH:-}" ]; then
        make_data "$work"
        run+=(--datasets-path "$work")
    fi
    case "$how" in
    cgroup)
        (echo "$BASHPID" >"$group/cgroup.procs"; exec "${run[@]}") >"$work/$1.log" 2>&1 &
        ;;
    systemd)
        systemd-run --user --scope --quiet -p MemoryMax="${limit_mb}M" -p MemorySwapMax=0 "${run[@]}" >"$work/$1.log" 2>&1 &
        ;;
    ulimit) # addresses, not memory, and of each process by itself: the weakest of the three
        (ulimit -v $((limit_mb * 1024)); exec "${run[@]}") >"$work/$1.log" 2>&1 &
        ;;
    esac
    node=$!
}

do_round() { # trainer; the node says "not yet" until it has loaded its data
    local tries=0
    : >"$work/round"
    until "$flnet" train "$1" --wait --node "127.0.0.1:$port" >"$work/round" 2>&1; do
        if ! kill -0 "$node" 2>/dev/null || [ $((tries += 1)) -ge 60 ] || grep -q "failed\|ended without" "$work/round"; then
            echo "FAILED: $1 did not do its round with $limit_mb MB; what it said:" >&2
            tail -n 5 "$work/round" "$work/$1.log" >&2
            return 1
        fi
        sleep 1
    done
    grep -E "^round" "$work/round" || true
}

peak() { # pid: the most memory that the process has held at once, in MB
    awk '/^VmHWM/ {printf "%d", $2 / 1024}' "/proc/$1/status"
}

say_peaks() { # trainer
    local child words
    words="$1: peak of the node $(peak "$node") MB"
    for child in $(descendants "$node"); do
        words+=", of its child $(peak "$child") MB"
    done
    if [ -n "$group" ] && [ "$version" = 1 ]; then
        words+=", charged to the group $(($(cat "$group/memory.max_usage_in_bytes") >> 20)) MB"
        words+="; limit met $(cat "$group/memory.failcnt") times"
    elif [ -n "$group" ] && [ -r "$group/memory.peak" ]; then
        words+=", charged to the group $(($(cat "$group/memory.peak") >> 20)) MB"
    fi
    echo "$words"
}

descendants() { # pid
    local child
    for child in $(pgrep -P "$1"); do
        echo "$child"
        descendants "$child"
    done
}

# Yeast's shape, made up, for those who have no multi-label data at hand.
make_data() {
    awk 'BEGIN {
        srand(1); for (i = 1; i <= 103; i++) printf "f%d,", i; for (i = 1; i <= 14; i++) printf "l%d%s", i, (i < 14 ? "," : "\n")
        for (row = 0; row < 2417; row++) {
            for (i = 1; i <= 103; i++) { f[i] = 2 * rand() - 1; printf "%.4f,", f[i] }
            for (i = 1; i <= 14; i++) printf "%d%s", (f[i] + f[i + 14] > 0.4), (i < 14 ? "," : "\n")
        }
    }' >"$1/made_up.csv"
    printf 'file = "made_up.csv"\nlabel_columns = -14\n' >"$1/multi_label.toml"
}

failed=0
for trainer in "$@"; do
    choose_how
    echo "$trainer with $limit_mb MB, limited by $how"
    start_node "$trainer"
    if do_round "$trainer"; then say_peaks "$trainer"; else failed=1; fi
    end_node
done
exit "$failed"
