// Scale simulates a fleet of leaves behind a Thanos Querier, from costs that were measured of one
// promwarp:
//
//	cd bench && go run ./scale [-series 1e6,1e7,1e8] [-leaf 1e6] [-hot 0.02] [-qps 20] …
//
// Series are divided over leaves by hashmod, a Prometheus and a promwarp each. Queries arrive at
// random, over a random number of series; each leaf evaluates its part on its cores, first come
// first served; the root waits for the last part and adds all up. model.go has the costs and the
// simulation. What is printed is docs/scale.md's tables.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/promwarp/promwarp/bench/report"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func run(args []string, out, messages io.Writer) error {
	f := flag.NewFlagSet("scale", flag.ContinueOnError)
	f.SetOutput(messages)
	m := fleet{costs: measured}
	sizes := f.String("series", "1e6,1e7,1e8", "active series of the whole fleet, with commas between")
	f.Float64Var(&m.seriesOfLeaf, "leaf", 1e6, "active series of one leaf and its Prometheus")
	f.DurationVar(&m.retention, "range", 30*24*time.Hour, "the range of all queries")
	f.DurationVar(&m.interval, "interval", 15*time.Second, "the samples' distance")
	f.DurationVar(&m.step, "step", time.Hour, "the step of all queries")
	f.Float64Var(&m.hot, "hot", 0.02, "the share of series that dashboards read")
	f.Float64Var(&m.most, "most", 0.001, "the most series of one query, as a share of all")
	f.Float64Var(&m.groups, "groups", 50, "series of an answer")
	f.IntVar(&m.cores, "cores", 16, "cores of a leaf")
	f.Float64Var(&m.link, "link", 1.25e9, "bytes a second of each machine's network")
	f.Float64Var(&m.rate, "qps", 20, "queries a second that the root is asked")
	f.IntVar(&m.queries, "queries", 4000, "queries to simulate")
	f.Uint64Var(&m.seed, "seed", 1, "what is random")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if err := m.check(); err != nil {
		return err
	}
	size := report.Table{Title: "What is there:", Head: []string{"active series", "leaves", "samples", "chunks of all", "hot, of a leaf", "memory of a leaf", "file cache of a leaf", "restart"}}
	wait := report.Table{Title: "What a query takes:", Head: []string{"active series", "series of a query: median, most", "first: median, most", "repeated: median, 99th percentile", "leaves busy", "root busy", "what bounds it"}}
	for s := range strings.SplitSeq(*sizes, ",") {
		series, err := strconv.ParseFloat(s, 64)
		if err != nil || series < 1 {
			return fmt.Errorf("-series: %q is no number from 1", s)
		}
		m.series = series
		t := m.size()
		size.Rows = append(size.Rows, []string{
			short(series), strconv.Itoa(t.leaves), short(t.samples), bytes(t.chunks), bytes(t.hotOfLeaf), bytes(t.memoryOfLeaf), bytes(t.diskOfLeaf), seconds(t.restart),
		})
		w := m.simulate()
		wait.Rows = append(wait.Rows, []string{
			short(series), short(w.series) + ", " + short(w.most), seconds(w.first) + ", " + seconds(w.firstOfMost), seconds(w.median) + ", " + seconds(w.high), percent(w.busy), percent(w.root), w.limit,
		})
	}
	for _, t := range []*report.Table{&size, &wait} {
		if err := t.Write(out); err != nil {
			return err
		}
	}
	return nil
}

// short is a number with three digits at most: 8.2 M.
func short(v float64) string {
	unit := ""
	for _, u := range []string{"k", "M", "G", "T", "P"} {
		if v < 1000 {
			break
		}
		v, unit = v/1000, " "+u
	}
	return strconv.FormatFloat(v, 'g', 3, 64) + unit
}

func bytes(v float64) string { return short(v) + "B" }

func seconds(v float64) string {
	if v < 1 {
		return fmt.Sprintf("%.3g ms", v*1000)
	}
	return fmt.Sprintf("%.3g s", v)
}

func percent(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) }
