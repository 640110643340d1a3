// Cores measures how promwarp and VictoriaMetrics gain from cores, with Prometheus beside them,
// on one machine, over HTTP:
//
//	make bench-cores ARGS='-series 10000 -stages 16,2,8,4,1,gzip:16,gzip:2,jitter:16,prometheus:2'
//
// It generates a data set that ended an hour ago, so that promwarp fetches nothing when a query is
// asked again, and runs the stages one after the other, as -stages lists them:
//
//	N             promwarp and VictoriaMetrics on N cores, in turns, all queries
//	prometheus:N  Prometheus on N cores, once a query, the fastest queries first
//	gzip:N        all three on N cores: queries with long answers as they are and as gzip
//	jitter:N      promwarp on N cores: samples of which each is up to 3 ms late, beside shared times
//
// Servers run on some cores only, those of one server at a time being asked; the program that asks,
// and the Prometheus that promwarp fetches from, have all. promwarp remembers no results and
// VictoriaMetrics is asked with nocache=1. Each answer of promwarp is compared with Prometheus's,
// which is asked for parts of the range at once. With -work the time that a server has run on cores
// takes the place of what passes, for machines that have other work.
//
// Results are written after each query, as JSON and as tables, and those of an earlier run in the
// same folder -dir are kept: what a run did not get to another can add. With -promwarp, -prometheus
// and -victoriametrics it needs neither the repository nor Go.
//
// Start with run. data.go generates, stage.go measures, right.go judges, tables.go writes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/promwarp/promwarp/bench/peers"
	"github.com/promwarp/promwarp/bench/queries"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "cores:", err)
		os.Exit(1)
	}
}

// options are what the flags say.
type options struct {
	dir           string
	series, hours int
	seed          uint64
	age           time.Duration
	stages        []stage
	rounds        int
	budget, limit time.Duration
	match         *regexp.Regexp // names of queries
	work          bool           // time on cores in place of what passes
	decoded       string
	binaries      [3]string // promwarp, Prometheus, VictoriaMetrics
	out, markdown string
}

func parse(args []string, w io.Writer) (o options, err error) {
	f := flag.NewFlagSet("cores", flag.ContinueOnError)
	f.SetOutput(w)
	f.StringVar(&o.dir, "dir", "", "folder for data and results, which a later run goes on with; a temporary one if empty")
	f.IntVar(&o.series, "series", 10_000, "about how many series to generate")
	f.IntVar(&o.hours, "hours", 24, "how many hours of samples to generate, one every 15 s")
	f.Uint64Var(&o.seed, "seed", 1, "which data set of the kind to generate")
	f.DurationVar(&o.age, "age", time.Hour, "how long ago the data ends when it is generated")
	stages := f.String("stages", "", "what to measure, in order: numbers of cores, gzip:N, jitter:N, prometheus:N")
	f.IntVar(&o.rounds, "rounds", 5, "how often to time each query")
	f.DurationVar(&o.budget, "budget", 2*time.Second, "how long a query's rounds may take before no other begins")
	f.DurationVar(&o.limit, "limit", 0, "how long the run may take; it ends in order with what it has; 0 for as long as it takes")
	f.BoolVar(&o.work, "work", false, "take the time that servers run on cores in place of what passes")
	match := f.String("queries", "", "regular expression of the names of the queries to ask; empty for all")
	f.StringVar(&o.decoded, "decoded", "", "most memory that promwarp may keep decoded samples in; promwarp's default if empty")
	for i, name := range names {
		f.StringVar(&o.binaries[i], name, "", "program of "+name+"; built if empty")
	}
	f.StringVar(&o.out, "out", "", "file for the results in JSON")
	f.StringVar(&o.markdown, "markdown", "", "file for the tables in Markdown")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if o.series < 1 || o.hours < 1 || o.rounds < 1 {
		return o, errors.New("-series, -hours and -rounds must be at least 1")
	}
	if o.match, err = regexp.Compile(*match); err != nil {
		return o, fmt.Errorf("-queries: %w", err)
	}
	for s := range strings.SplitSeq(*stages, ",") {
		st, err := parseStage(s)
		if err != nil {
			return o, fmt.Errorf("-stages: %w", err)
		}
		o.stages = append(o.stages, st)
	}
	return o, nil
}

// bench is what the stages share.
type bench struct {
	options
	begin    time.Time
	programs [3]peers.Program // by the order of names
	data     state
	result   result
	running  []*peers.Process
	print    io.Writer
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args, out)
	if err != nil {
		return err
	}
	b := &bench{options: o, begin: time.Now(), print: out}
	defer b.stop()
	if b.dir == "" {
		if b.dir, err = os.MkdirTemp("", "promwarp-cores-"); err != nil {
			return err
		}
		defer func() { b.stop(); os.RemoveAll(b.dir) }()
	}
	if o.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.limit, errLimit)
		defer cancel()
	}
	if err := b.find(ctx); err != nil {
		return err
	}
	if err := b.resume(); err != nil {
		return err
	}
	for _, s := range b.stages {
		b.say("stage %s", s)
		err := b.measure(ctx, s)
		b.stop()
		if err := b.write(); err != nil {
			return err
		}
		if errors.Is(context.Cause(ctx), errLimit) {
			b.say("-limit is reached in stage %s", s)
			break
		}
		if err != nil {
			return fmt.Errorf("stage %s: %w", s, err)
		}
	}
	if err := b.result.tables(out); err != nil {
		return err
	}
	if n := len(b.result.Wrong); n > 0 {
		return fmt.Errorf("%d answers of promwarp were not Prometheus's: %s", n, b.result.Wrong[0])
	}
	return nil
}

var errLimit = errors.New("the run's time is over")

// find has the programs at hand, built if need be.
func (b *bench) find(ctx context.Context) error {
	say := func(s string) { b.say("%s", s) }
	for i, name := range names {
		b.programs[i] = peers.Program{Path: b.binaries[i], Version: "given"}
		if b.binaries[i] != "" {
			path, err := filepath.Abs(b.binaries[i])
			if err == nil {
				_, err = os.Stat(path)
			}
			if err != nil {
				return fmt.Errorf("-%s: %w", name, err)
			}
			b.programs[i].Path = path
			continue
		}
		repository, err := peers.FindRepository(ctx)
		if err != nil {
			return err
		}
		switch name {
		case prometheus:
			b.programs[i], err = repository.Prometheus(ctx, say)
		case victoriaMetrics:
			b.programs[i], err = repository.VictoriaMetrics(ctx, say, false)
		default:
			b.say("building promwarp")
			b.programs[i], err = repository.Promwarp(ctx, b.dir)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// say prints what happens, and when.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.print, "%5.1fs %s\n", time.Since(b.begin).Seconds(), fmt.Sprintf(format, args...))
}

// stop ends all servers.
func (b *bench) stop() {
	for _, p := range b.running {
		p.Kill()
	}
	b.running = nil
}

// asked are the queries whose names match.
func (b *bench) asked(all ...queries.Query) (qs []queries.Query) {
	for _, q := range all {
		if b.match.MatchString(q.Name) {
			qs = append(qs, q)
		}
	}
	return qs
}
