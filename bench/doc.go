// Bench compares promwarp with its peers, Prometheus and VictoriaMetrics, in
// one run, on one data set, over HTTP:
//
//	cd bench && go run . [-series n] [-only promwarp,victoriametrics] [-out results.json] [-markdown table.md] [-docs page.md]
//
// It generates a data set with package dataset, as blocks for a Prometheus,
// starts that Prometheus, a promwarp in front of it and a VictoriaMetrics that
// was sent the same samples, and asks all of them the queries of package
// queries. The servers listen on loopback addresses and end with the program.
//
// Prometheus and VictoriaMetrics are built from their Go modules when they are
// first needed, which takes some minutes, and kept in the repository's folder
// .build, named by version. VictoriaMetrics's version is pinned in a module of
// its own, ./victoriametrics, so that it is built with its own dependencies.
//
// # What is measured
//
// The time from sending a query to the end of its answer's body, without
// compression. Four contenders take turns, in an order that rotates:
//
//   - prometheus: asked directly. It has no cache of answers; its blocks are in
//     the page cache, for every query is asked once before it is timed.
//   - promwarp first: a promwarp process started for this one query.
//   - promwarp repeated: a promwarp process that runs all the time and has been
//     asked this query, and those before it. The newest minute of data it
//     fetches anew each time, as long as it is that new, the newest ten if the last
//     time is five minutes ago: the data ends when
//     the run begins unless -end says otherwise.
//   - victoriametrics: asked with nocache=1, because its cache is one of answers
//     and would be all that is measured. It was sent the samples over remote
//     write, stale markers included, and has merged its parts into one. It is
//     built without cgo and decompresses in Go, which costs it about a fifth;
//     -cgo builds it with cgo, as its releases are.
//
// Rounds of a query end when -rounds is reached or, after at least one, when the
// query took -budget. The peak of memory is the kernel's VmHWM, reset before the
// first query, which counts pages of mapped files; of promwarp's processes it is
// the largest.
//
// With -cores 1,2,4 there is a promwarp repeated on so many cores for each, pinned to them, and
// a table says how efficient more of them are; with -gzip promwarp is asked for a compressed answer,
// too; -jitter scrape or series has samples come up to 3 ms late. Package scaling measures the
// engine alone so.
//
// # What is checked
//
// Every answer of promwarp against Prometheus's: same series, same times, values
// within 1e-12, same warnings. One that differs makes the program fail.
// VictoriaMetrics extrapolates nothing at the edges of a window and looks back
// otherwise, so its answers differ by design; how they do is reported.
package main
