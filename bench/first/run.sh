#!/bin/sh
# Measures first answers on many cores and on few with the programs that lie beside this script:
# first, prometheus and promwarp. It needs taskset, but neither Go nor a network:
#
#	run.sh [DIR [FEW [MANY]]]
#
# DIR gets half a GB of samples; without it they lie in a folder that stays.
cd "$(dirname "$0")" || exit 1
data=${1:-$(mktemp -d)}
few=${2:-2}
many=${3:-16}
on() { # cores rounds flags
	echo "== $3"
	taskset -c "0-$(($1 - 1))" ./first -dir "$data" -prometheus ./prometheus -promwarp ./promwarp -rounds "$2" -flags "$3"
}
./first -dir "$data" -rounds 0 || exit 1
on "$many" 5
on "$few" 5
on "$many" 3 --upstream.concurrency=8
