// Scale simulates a fleet of leaves behind a Thanos Querier, from costs that were measured of one
// promwarp and one Querier:
//
//	cd bench && go run ./scale [-series 1e6,1e7,1e8] [-leaf 1e6] [-hot 0.02] [-qps 20] …
//
// Series are divided over leaves by hashmod, a Prometheus and a promwarp each. Queries arrive at
// random, over a random number of series; each leaf evaluates its part on its cores, first come
// first served; the root waits for the last part and adds all up. model.go has the costs and the
// simulation. What is printed are the tables of docs/scale.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
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
	f.Float64Var(&m.remembered, "remembered", 0.8, "the share of queries that were asked a moment ago, and are remembered")
	f.IntVar(&m.cores, "cores", 16, "cores of each machine")
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
	size := report.Table{Title: "What a leaf has:", Head: []string{"active series", "leaves", "samples of all", "chunks of all", "hot chunks", "memory", "files of cache.path", "restart"}}
	idle := report.Table{Title: "A query of an idle fleet, by its series:", Head: []string{"active series", "series", "first", "of another grid", "repeated", "bytes to the root"}}
	busy := report.Table{Title: fmt.Sprintf("At %v queries a second:", m.rate), Head: []string{"active series", "median", "99th percentile", "leaves busy", "root busy", "its network", "full at, queries a second: leaves", "root", "its network"}}
	sizing := report.Table{Title: "Published sizing of Mimir for as much, and the promwarps:", Head: []string{"active series", "Mimir: cores", "memory", "disk", "promwarps: cores busy", "memory", "disk"}}
	for s := range strings.SplitSeq(*sizes, ",") {
		series, err := strconv.ParseFloat(s, 64)
		if err != nil || series < 1 || math.IsInf(series, 1) {
			return fmt.Errorf("-series: %q is no number from 1", s)
		}
		m.series = series
		t, w, p := m.size(), m.simulate(), m.published()
		size.Add(short(series), strconv.Itoa(t.leaves), short(t.samples), bytes(t.chunks), bytes(t.hot), bytes(t.memory), bytes(t.disk), seconds(t.restart))
		for _, n := range []float64{m.median(), m.largest()} {
			l := m.alone(n)
			idle.Add(short(series), short(n), seconds(l.first), seconds(l.otherGrid), seconds(l.repeated), bytes(l.network))
		}
		busy.Add(short(series), seconds(w.median), seconds(w.high), percent(w.busy), percent(w.root), percent(w.network), short(m.rate/w.busy), short(m.rate/w.root), short(m.rate/w.network))
		of := float64(t.leaves)
		sizing.Add(short(series), short(p.cores), bytes(p.memory), bytes(p.disk), short(w.busy*float64(m.cores)*of), bytes(t.memory*of), bytes(t.disk*of))
	}
	for _, t := range []*report.Table{&size, &idle, &busy, &sizing} {
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

func percent(v float64) string { return fmt.Sprintf("%.3g %%", 100*v) }
