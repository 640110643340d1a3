package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/promwarp/promwarp/bench/queries"
	"github.com/promwarp/promwarp/bench/report"
	"github.com/promwarp/promwarp/internal/dataset"
)

// options are what the flags say.
type options struct {
	series, hours int
	seed          uint64
	end           int64 // seconds since the epoch
	rounds        int
	budget        time.Duration
	queries       []queries.Query
	promwarp, vm  bool // the peers to ask besides Prometheus
	cgo           bool
	cores         []int // of promwarp alone, to see how its time falls with them
	gzip          bool
	jitter        string
	decoded       string
	results       string
	out, markdown string
	docs          string
	unusual       string // a flag that makes the run another than that of the docs
}

// smoke is what -smoke sets: enough to see that everything works.
var smoke = map[string]string{"series": "340", "hours": "3", "rounds": "1", "only": "promwarp"}

// parseOptions reads the command line.
func parseOptions(args []string, now time.Time, w io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(w)
	f.IntVar(&o.series, "series", 3000, "about how many series to generate")
	f.IntVar(&o.hours, "hours", 30, "how many hours of samples to generate, one every 15 s")
	f.Uint64Var(&o.seed, "seed", 1, "which data set of the kind to generate")
	f.Int64Var(&o.end, "end", now.Truncate(time.Minute).Unix(), "end of the data in seconds since the epoch")
	f.IntVar(&o.rounds, "rounds", 3, "how often to time each query")
	f.DurationVar(&o.budget, "budget", 5*time.Second, "how long a query's rounds may take before no other begins")
	names := f.String("queries", "", "regular expression of the names of the queries to ask; empty for all")
	only := f.String("only", "promwarp,victoriametrics", "peers to compare with Prometheus, which is always asked")
	f.BoolVar(&o.cgo, "cgo", false, "build VictoriaMetrics with cgo, as its releases are; needs a C compiler")
	cores := f.String("cores", "", "numbers of cores, as 1,2,4: a promwarp on so many for each, to see how efficient they are")
	f.BoolVar(&o.gzip, "gzip", false, "ask promwarp for compressed answers, too, as Grafana does")
	f.StringVar(&o.jitter, "jitter", "none", "by what samples come up to 3 ms late: none, scrape (those of a target alike) or series (each by itself, as where they are pushed)")
	f.StringVar(&o.decoded, "decoded", "192MiB", "most memory that promwarp may keep decoded samples in; 0 for compressed chunks alone")
	f.StringVar(&o.results, "results", "0", "most memory that promwarp may remember results in; 0 has it evaluate every query, as VictoriaMetrics does, which is asked with nocache")
	f.StringVar(&o.out, "out", "", "file for the results in JSON")
	f.StringVar(&o.markdown, "markdown", "", "file for the table in Markdown")
	f.StringVar(&o.docs, "docs", "", "page of documentation whose tables to write anew, unless other flags change what is measured")
	small := f.Bool("smoke", false, "see quickly whether everything works: few series, one round, no VictoriaMetrics")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if *small {
		given := map[string]bool{}
		f.Visit(func(g *flag.Flag) { given[g.Name] = true })
		for name, value := range smoke {
			if !given[name] {
				_ = f.Set(name, value) // a flag and a value of ours
			}
		}
	}
	f.Visit(func(g *flag.Flag) {
		if !slices.Contains([]string{"out", "markdown", "docs"}, g.Name) {
			o.unusual = "-" + g.Name
		}
	})
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	return o, errors.Join(o.check(), o.chooseCores(*cores), o.choosePeers(*only), o.chooseQueries(*names))
}

func (o *options) check() error {
	switch {
	case o.series < 1:
		return errors.New("-series must be at least 1")
	case o.hours < 1:
		return errors.New("-hours must be at least 1")
	case o.rounds < 1:
		return errors.New("-rounds must be at least 1")
	case o.end < int64(o.hours)*3600:
		return errors.New("-end must be so late that the data begins after 1970")
	}
	return nil
}

func (o *options) chooseCores(list string) error {
	for s := range strings.SplitSeq(list, ",") {
		if s == "" {
			continue
		}
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > runtime.NumCPU() {
			return fmt.Errorf("-cores: %q is no number of cores from 1 to %d", s, runtime.NumCPU())
		}
		o.cores = append(o.cores, n)
	}
	return nil
}

func (o *options) choosePeers(list string) error {
	for name := range strings.SplitSeq(list, ",") {
		switch strings.TrimSpace(name) {
		case "promwarp":
			o.promwarp = true
		case report.VictoriaMetrics:
			o.vm = true
		case report.Prometheus, "":
		default:
			return fmt.Errorf("-only: no peer is called %q; there are prometheus, promwarp and victoriametrics", name)
		}
	}
	return nil
}

func (o *options) chooseQueries(expr string) error {
	re, err := regexp.Compile(expr)
	if err != nil {
		return fmt.Errorf("-queries: %w", err)
	}
	if o.queries = queries.Select(re); len(o.queries) == 0 {
		var names []string
		for _, q := range queries.All {
			names = append(names, q.Name)
		}
		slices.Sort(names)
		return fmt.Errorf("-queries: %q matches none of %s", expr, strings.Join(names, ", "))
	}
	return nil
}

// length is how much time the data covers.
func (o *options) length() time.Duration { return time.Duration(o.hours) * time.Hour }

// endTime is the end of the data.
func (o *options) endTime() time.Time { return time.Unix(o.end, 0) }

// data says what to generate.
func (o *options) data() dataset.Options {
	return dataset.Options{Start: o.endTime().Add(-o.length()).UnixMilli(), End: o.end * 1000, Series: o.series, Seed: o.seed, Jitter: o.jitter}
}
