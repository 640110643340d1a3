// Bench compares promwarp with its peers, Prometheus and VictoriaMetrics, on one data set, over
// HTTP:
//
//	cd bench && go run . [-stages dashboards,first,…] [-series n] [-hours n] [-markdown table.md]
//
// It measures in stages; -help lists them. A stage says what data it needs, starts servers over
// them, asks contenders questions, and has the rig time and compare the answers. The servers listen
// on loopback addresses and end with the program. Start with stages.go; rig.go starts servers,
// data.go makes samples, trial.go and load.go ask, package report writes.
//
// # Programs
//
// promwarp is built from the repository. Prometheus and VictoriaMetrics are built from their Go
// modules when they are first needed, which takes some minutes, and stay in the repository's folder
// .build, named by version. VictoriaMetrics's version is pinned in a module of its own,
// ./victoriametrics, so that it is built with its own dependencies. For a machine without Go and a
// network, build this program with CGO_ENABLED=0 and name programs with -promwarp, -prometheus and
// -victoriametrics; VictoriaMetrics with cgo, as its releases are, is named so, too. Nothing else of the
// repository is needed there: the commit that results name is the one that promwarp version shows,
// or git's where the promwarp that was built here shows none. -json FILE takes the results from
// there, and -from FILE shows them here and writes the figures of -readme. taskset around all of it
// sets the cores of servers and client; the stages cores and gzip use it to give servers some alone.
//
// # What is measured
//
// The time from sending a request to the end of its answer's body, and what the server ran on cores
// meanwhile, which takes the place of the time with -work, for machines that have other work. The
// contenders of a stage take turns, in an order that rotates:
//
//   - Prometheus, asked directly. It has no cache of answers; its blocks are in the page cache, for
//     every query is asked once before it is timed.
//   - promwarp first: a promwarp process started for this one query; second: asked once more.
//   - promwarp repeated: a promwarp process that runs all the time and has been asked this query
//     twice, and those before it. What is newer than ten minutes it fetches anew: the data of the
//     stage dashboards end when they are made, those of other stages an hour before, or -age.
//   - VictoriaMetrics, asked with nocache=1, because its cache is one of answers and would be all
//     that is measured. It was sent the samples over remote write, stale markers included, and has
//     merged its parts into one.
//
// The stage slo moves with time: a promwarp on two cores answers 200 rules once a minute, as of that
// minute, while the data go on for an hour after they are made, so that each round fetches samples
// that have come meanwhile, and then Prometheus does. What promwarp ran on cores counts until the next
// round begins.
//
// Rounds of a query end when -rounds is reached or, after at least one, when the query took
// -budget. The peak of memory is the kernel's VmHWM, which counts pages of mapped files; of
// promwarp's processes it is the largest.
//
// With -dir data and results stay: a later run finds its data made and adds to the results. These
// are written after each query, so that a run that is interrupted leaves what it has.
//
// # What is checked
//
// Every answer of promwarp against Prometheus's: same series, same times, values within 1e-12, same
// warnings; of the stage functions where -only names Prometheus, which takes minutes. One that
// differs makes the program fail. VictoriaMetrics extrapolates nothing at the edges of a window and
// looks back otherwise, so its answers differ by design; how many do is reported.
package main
