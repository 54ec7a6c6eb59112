#!/bin/sh
# What siege, httperf, wrk, ab, h2load and loadline report for the same work.
#
#   make tools                       installs the tools, runs this, writes docs/load-tools.md
#   bench/tools.sh [LOADLINE] [CASE...]   the same as Markdown on the standard output
#
# Cases: healthy stall unavailable hang resets. The server is `loadline worker`, whose own counts
# are the last column; it is started anew for each tool, so that nobody finds another's mess.
set -eu

loadline=${1:-target/dist/loadline}
[ $# -eq 0 ] || shift
cases=${*:-healthy stall unavailable hang resets}

dir=$(mktemp -d)
worker=
trap 'stop_worker; rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM

start_worker() {
    rm -f "$dir/worker"
    # shellcheck disable=SC2086 # A list of arguments.
    "$loadline" worker fixed --listen 127.0.0.1:0 $1 >"$dir/worker" 2>"$dir/worker.err" &
    worker=$!
    tries=0
    until [ -s "$dir/worker" ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 100 ] || { echo "tools: no worker: $(cat "$dir/worker.err")" >&2; exit 2; }
        sleep 0.05
    done
    address=$(sed -n 's/^listening on //p' "$dir/worker")
    url="http://$address/"
}

stop_worker() {
    [ -n "$worker" ] || return 0
    kill "$worker" 2>/dev/null || true
    wait "$worker" 2>/dev/null || true
    worker=
}

# The number behind a key of a flat JSON object.
number() { sed 's/[,{}]/\n/g' | sed -n "s/^\"$1\": *//p" | head -n 1; }

# A time as wrk and h2load print it, in milliseconds.
millis() {
    awk '{ v = $1 + 0; u = $1; gsub(/[0-9.]/, "", u)
           f = u == "us" ? 0.001 : u == "s" ? 1000 : u == "m" ? 60000 : 1
           printf "%.1f", v * f }'
}

# row TOOL OK FAILED RATE MEAN P50 P99 MAX
row() {
    accepted=$(curl -s "${url}stats" | number accepted)
    printf '| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n' "$@" "$status" "$accepted"
}

# Runs a tool with at most a minute; its exit code is in $status, its output in $dir/out.
run() {
    status=0
    timeout 60 "$@" >"$dir/out" 2>&1 || status=$?
}

# Each tool is given: users, requests of each user, seconds (0: until the requests are done), rate
# (0: as fast as the users go), time-out in seconds. Where it knows no rate it goes by users.
use_siege() {
    cat >"$dir/siegerc" <<EOF
verbose = false
color = off
json_output = false
connection = keep-alive
parser = false
timeout = $5
failures = 1000000
logging = false
show-logfile = false
EOF
    if [ "$3" -gt 0 ]; then amount="-t${3}S"; else amount="-r$2"; fi
    HOME=$dir run siege -R "$dir/siegerc" -b -c "$1" "$amount" "$url"
    of() { sed -n "s/^$1:[^0-9]*\([0-9.]*\).*/\1/p" "$dir/out"; }
    seconds() { of "$1" | awk '{ printf "%.0f", $1 * 1000 }'; }
    row "siege 4" "$(of 'Successful transactions')" "$(of 'Failed transactions')" \
        "$(of 'Transaction rate')" "$(seconds 'Response time')" - - \
        "$(seconds 'Longest transaction')"
}

use_httperf() {
    host=${address%:*}
    port=${address##*:}
    set -- "$@" --hog --server "$host" --port "$port" --uri / --timeout "$5"
    if [ "$4" -gt 0 ]; then
        set -- "$@" --rate "$4" --num-conns $(($4 * $3))
    else
        set -- "$@" --wsess="$1,$2,0" --rate 1000
    fi
    shift 5
    run httperf "$@"
    good=$(sed -n 's/^Reply status:.*2xx=\([0-9]*\).*/\1/p' "$dir/out")
    bad=$(sed -n 's/^Reply status:.*4xx=\([0-9]*\) 5xx=\([0-9]*\)/\1 \2/p' "$dir/out" |
        awk '{ print $1 + $2 }')
    lost=$(sed -n 's/^Errors: total \([0-9]*\).*/\1/p' "$dir/out")
    row "httperf 0.9" "$good" "$((bad + lost))" \
        "$(sed -n 's/^Request rate: \([0-9.]*\).*/\1/p' "$dir/out")" \
        "$(sed -n 's/^Reply time.*response \([0-9.]*\).*/\1/p' "$dir/out")" - - -
}

use_wrk() {
    seconds=$3
    [ "$seconds" -gt 0 ] || seconds=3
    run wrk -t1 -c "$1" -d "${seconds}s" --timeout "${5}s" --latency "$url"
    of() { awk -v key="$1" -v field="$2" '$1 == key { print $field; exit }' "$dir/out"; }
    all=$(sed -n 's/^ *\([0-9]*\) requests in.*/\1/p' "$dir/out")
    bad=$(sed -n 's/^ *Non-2xx or 3xx responses: //p' "$dir/out")
    lost=$(sed -n 's/^ *Socket errors: //p' "$dir/out" | tr -c '0-9\n' ' ' |
        awk '{ print $1 + $2 + $3 + $4 }')
    row "wrk 4" "$((all - ${bad:-0}))" "$((${bad:-0} + ${lost:-0}))" "$(of Requests/sec: 2)" \
        "$(of Latency 2 | millis)" "$(of 50% 2 | millis)" "$(of 99% 2 | millis)" \
        "$(of Latency 4 | millis)"
}

use_ab() {
    if [ "$3" -gt 0 ]; then
        run ab -q -k -c "$1" -s "$5" -t "$3" -n 1000000 "$url"
    else
        run ab -q -k -c "$1" -s "$5" -n $(($1 * $2)) "$url"
    fi
    of() { sed -n "s/^$1: *\([0-9.]*\).*/\1/p" "$dir/out" | head -n 1; }
    bad=$(of 'Non-2xx responses')
    failed=$(of 'Failed requests')
    complete=$(of 'Complete requests')
    row "ab 2" "$((${complete:-0} - ${bad:-0}))" "$((${failed:-0} + ${bad:-0}))" \
        "$(of 'Requests per second')" "$(awk '$1 == "Total:" { print $3 }' "$dir/out")" \
        "$(awk '$1 == "50%" { print $2 }' "$dir/out")" \
        "$(awk '$1 == "99%" { print $2 }' "$dir/out")" \
        "$(awk '$1 == "100%" { print $2 }' "$dir/out")"
}

use_h2load() {
    set -- "$@" --h1 -c "$1" -T "$5" -N "$5"
    if [ "$3" -gt 0 ]; then set -- "$@" -D "$3"; else set -- "$@" -n $(($1 * $2)); fi
    if [ "$4" -gt 0 ]; then set -- "$@" --rps $(($4 / $1)); fi
    shift 5
    run h2load "$@" "$url"
    good=$(sed -n 's/^status codes: \([0-9]*\) 2xx.*/\1/p' "$dir/out")
    bad=$(sed -n 's/^requests:.* \([0-9]*\) failed.*/\1/p' "$dir/out")
    time() { awk -v field="$1" '/^time for request:/ { print $field }' "$dir/out" | millis; }
    row "h2load 1" "${good:-0}" "${bad:-0}" \
        "$(sed -n 's/^finished in [^,]*, \([0-9.]*\) req.*/\1/p' "$dir/out")" "$(time 6)" - - \
        "$(time 5)"
}

use_loadline() {
    set -- "$@" --timeout "${5}s" --json --quiet
    if [ "$4" -gt 0 ]; then
        set -- "$@" --rate "$4" --duration "${3}s"
    elif [ "$3" -gt 0 ]; then
        set -- "$@" --users "$1" --duration "${3}s"
    else
        set -- "$@" --users "$1" --requests "$2"
    fi
    shift 5
    run "$loadline" bench "$url" "$@" --slo 'errors<0.1%'
    python3 - "$dir/out" >"$dir/row" <<'EOF'
import json, sys
record = json.load(open(sys.argv[1]))
response, good = record["response"], record["outcomes"]["ok"]
keys = ("mean_ms", "p50_ms", "p99_ms", "max_ms")
times = [f"{response[key]:.1f}" if good else "-" for key in keys]
print(good, sum(record["outcomes"].values()) - good, f"{record['achieved_per_s']:.1f}", *times)
EOF
    # shellcheck disable=SC2046 # The columns.
    row "**loadline**" $(cat "$dir/row")
}

# table WORKER-ARGUMENTS USERS REQUESTS SECONDS RATE TIMEOUT
table() {
    arguments=$1
    shift
    cat <<'EOF'

| tool | ok | failed | rate /s | mean ms | p50 | p99 | max | exit | server counted |
|---|---|---|---|---|---|---|---|---|---|
EOF
    for tool in siege httperf wrk ab h2load loadline; do
        echo "tools: $case: $tool" >&2
        start_worker "$arguments"
        "use_$tool" "$@"
        stop_worker
    done
}

capacity="--cores 4 --service-time 5ms"
cat <<EOF
# Six load generators, the same work

Made by \`make tools\` ($(date -u +%Y-%m-%d), $(uname -m), $(nproc) cores, loopback). The server is
\`loadline worker fixed $capacity\`: it can do 800 requests a second and no more. Its own
count of requests is the last column: where it is more than ok + failed, the tool left some of its
requests out of the figures. "-" is what a tool does not tell. Times are milliseconds.
EOF
for case in $cases; do
    case $case in
    healthy)
        printf '\n## A healthy server: 8 users, 250 requests each\n'
        table "$capacity" 8 250 0 0 2
        cat <<'EOF'

Eight users on four cores of 5 ms: 800/s and 10 ms, by Little's law. wrk cannot be told how many
requests to send; it ran for 3 s.
EOF
        ;;
    stall)
        printf '\n## A server that stalls for 2 s in a run of 10 s, wanted: 200/s\n'
        table "$capacity --stall 2s --stall-after 4s" 2 0 10 200 10
        cat <<'EOF'

A fifth of all callers who come at 200/s meet the stall and wait 1 s on average, so the true mean is
206 ms and the true p99 about 1.9 s. A tool that waits for the server before it sends its next request
meets the stall once a connection and reports a mean as if nothing had happened (coordinated
omission). siege, wrk and ab know no rate; they ran with two users as fast as these went. wrk fills in
afterwards the requests that it would have sent; here it was given a time-out of 10 s. Left at its own
of 2 s it drops what took longer from its figures, and its p99 is 5 ms again.
EOF
        ;;
    unavailable)
        printf '\n## A server that answers 503 to everything: 8 users, 50 requests each\n'
        table "$capacity --status 503" 8 50 0 0 2
        printf '\nOnly loadline was given an objective (`--slo "errors<0.1%%"`): no other has one.\n'
        ;;
    hang)
        printf '\n## A server that takes requests and never answers: 8 users, 1 request each, 2 s\n'
        table "$capacity --hang" 8 1 0 0 2
        printf '\nExit 124: still waiting after a minute, ended by us.\n'
        ;;
    resets)
        printf '\n## A server that resets every second request: 8 users, 50 requests each\n'
        table "$capacity --reset 50%" 8 50 0 0 2
        cat <<'EOF'

loadline counts a request that the server failed at as failed: it is sent again only where the server
had closed the kept connection before the request came there.
EOF
        ;;
    *) echo "tools: no case is called $case" >&2; exit 1 ;;
    esac
done
