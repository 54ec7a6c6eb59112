#!/bin/sh
# What loadline costs beside a bare relay, HAProxy, nginx and Envoy, as a page.
#
#   make performance                 an idle machine, 40 min; writes docs/performance.md
#   bench/performance.sh FILE        the same page from what `loadline-bench run` printed into FILE
#
# What people wrote below "## Read with it" in docs/performance.md stays.
set -eu

page=docs/performance.md
output=$1
[ -s "$output" ] || { echo "performance: $output is empty: run make bench first" >&2; exit 1; }

processor=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
cat <<EOF
# Performance: what a request costs

Made by \`make performance\` on $(date -u -r "$output" +%Y-%m-%d): $(nproc) cores of ${processor:-an unnamed processor}, kernel
$(uname -r), loopback. The proxy has one core, the load and the servers the other. Rounds are
interleaved: each proxy runs a second, then the next, and the ratio is taken within a round, so that a
machine that slows down slows all alike. Figures are medians with the smallest and the largest round.
The CPU time is the process's own, kernel included; \`user\` is the part outside the kernel. \`floor\`
is a bare epoll relay that parses, picks by turns and forwards, and does nothing else.

\`\`\`text
$(cat "$output")
\`\`\`
EOF
if [ -f docs/performance-scale.svg ]; then
    cat <<'EOF'

What grows with the number of servers, in groups of ten (*scale*):

![What starting, resting, a reload, a health change and a scrape cost with 1,000 to 100,000 servers,
in multiples of what they cost with 1,000](performance-scale.svg)
EOF
fi
[ ! -f "$page" ] || { echo; sed -n '/^## Read with it/,$p' "$page"; }
