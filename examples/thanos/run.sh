#!/bin/sh
# Three Prometheis, a promwarp before each as a leaf, and a distributed Thanos Querier over them, on this
# machine's loopback addresses, until Ctrl-C:
#
#   examples/thanos/run.sh
#
# It has make build the programs that PROMETHEUS, THANOS and PROMWARP do not name, which takes some minutes once.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
newest() { ls -t "$root/.build/$1"* 2>/dev/null | head -n 1; }
[ -n "${PROMETHEUS-}" ] || { make -C "$root" prometheus && PROMETHEUS=$(newest prometheus-); }
[ -n "${THANOS-}" ] || { make -C "$root" thanos && THANOS=$(newest thanos-); }
[ -n "${PROMWARP-}" ] || { make -C "$root" build && PROMWARP=$root/bin/promwarp; }

dir=$(mktemp -d)
pids=
stop() {
	trap - EXIT
	kill $pids 2>/dev/null || true
	wait
	rm -rf "$dir"
	exit
}
trap stop EXIT INT TERM
run() { # NAME COMMAND...: its output goes to a file
	name=$1
	shift
	"$@" >"$dir/$name.log" 2>&1 &
	pids="$pids $!"
}

endpoints=
n=0
for region in ap eu us; do
	n=$((n + 1))
	sed "s/localhost:9090/127.0.0.1:1909$n/" "$here/prometheus.yml" >"$dir/$region.yml"
	run "prometheus-$region" env REGION=$region "$PROMETHEUS" --config.file="$dir/$region.yml" --storage.tsdb.path="$dir/$region" --web.listen-address=127.0.0.1:1909$n
	run "promwarp-$region" "$PROMWARP" serve --upstream.url=http://127.0.0.1:1909$n --upstream.external-labels=keep \
		--web.listen-address=127.0.0.1:1920$n --grpc.listen-address=127.0.0.1:1930$n
	endpoints="$endpoints --endpoint=127.0.0.1:1930$n"
done
run querier "$THANOS" query --query.mode=distributed --query.promql-engine=thanos --http-address=127.0.0.1:19400 --grpc-address=127.0.0.1:19401 $endpoints

echo "The Querier is at http://127.0.0.1:19400, promwarps are at ports 19201 to 19203; logs are in $dir."
echo "Ask it: curl -G http://127.0.0.1:19400/api/v1/query --data-urlencode 'query=sum by (region) (up)'"
wait
