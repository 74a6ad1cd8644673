#!/bin/sh
# One round of an operator: record, what-if, apply, undo. round.sh SCHEDCAST GROUP FOLDER
# A client sends three requests every 0.2 s to a server in the group, which computes 6 ms for
# each: 18 ms at once, of 15 ms in every 100 ms. Both ways record the same seconds.
set -e
schedcast=$1 group=$2 folder=$3
tree=/sys/fs/cgroup/cpu
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
	tree=/sys/fs/cgroup
	echo +cpu >$tree/cgroup.subtree_control
fi
dir=$tree/$group
mkdir "$dir" "$folder"
cd "$folder"
# A name of its own tells the server's thread from other shells.
cp "$(readlink -f /bin/sh)" circle-server

limit() {
	cat "$dir/cpu.max" 2>/dev/null || cat "$dir/cpu.cfs_quota_us" "$dir/cpu.cfs_period_us"
}

# It measures first how many rounds of its loop take 6 ms of CPU time.
server() {
	./circle-server -c 'compute() {
			n=0
			while [ $n -lt $1 ]; do n=$((n + 1)); done
		}
		read -r before _ </proc/$$/schedstat
		compute 50000
		read -r after _ </proc/$$/schedstat
		rounds=$((50000 * 6000000 / (after - before)))
		echo $$ >"$0/cgroup.procs"
		while read -r _; do compute $rounds; done' "$dir"
}

"$schedcast" apply --cgroup "/$group" --set 'cpu.max=15000 100000' --journal first >&2
while sleep 0.2; do printf '\n\n\n'; done | server &
client=$!
# The pipe's writer has no name here; it ends with its reader.
trap 'kill $(cat "$dir/cgroup.procs") $client 2>/dev/null || :; sleep 0.3; rmdir "$dir"' EXIT
until [ -n "$(cat "$dir/cgroup.procs")" ]; do sleep 0.1; done
sleep 0.5

for way in tracefs bpf; do
	"$schedcast" record -o $way --by $way --cgroup "/$group" --duration 5s >$way.said 2>&1 &
	recorders="${recorders:-} $!"
done
for recorder in $recorders; do wait "$recorder" || :; done
for way in tracefs bpf; do
	echo "== $way"
	"$schedcast" what-if $way --cgroup "/$group" --seeds 8 --set 'cpu.max=40000 100000' --json - --quiet ||
		cat $way.said
done

echo "== counted"
cat "$dir/cpu.stat" bpf.said tracefs.said

echo "== before"
limit
"$schedcast" apply --cgroup "/$group" --set 'cpu.max=40000 100000' --journal second >&2
echo "== applied"
limit
"$schedcast" undo --cgroup "/$group" --journal second >&2
echo "== undone"
limit
