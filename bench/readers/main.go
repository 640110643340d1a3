// Readers measures what remote readers get from promwarp, beside what they get from the
// Prometheus that it reads itself.
//
//	make bench-readers ARGS='-rounds 10 -cases reads'
//
// A Prometheus answers from blocks of package dataset's samples, and promwarp before it, with
// them in its cache. A case asks both the same and prints the median time to the first and to
// the last byte, and each one's CPU time; of promwarp's also what it had the Prometheus do
// meanwhile.
//
// Start with run. door.go asks as a reader does and reads no more than the bytes, rules.go has a
// Prometheus evaluate recording rules that reads through promwarp, reduced.go reads less.
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
	"runtime"
	"strings"
	"time"

	"github.com/promwarp/promwarp/bench/peers"
	"github.com/promwarp/promwarp/internal/dataset"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "readers:", err)
		os.Exit(1)
	}
}

// bench is what the cases share.
type bench struct {
	out      io.Writer
	dir      string
	o        dataset.Options
	rounds   int
	settled  int64         // ms since the epoch: promwarp keeps all that is before
	binary   peers.Program // Prometheus
	program  peers.Program // promwarp
	upstream *peers.Process
	promwarp *peers.Process
}

// cases are what there is to measure, by name, in the order in which they run.
var cases = []struct {
	name string
	run  func(context.Context, *bench) error
}{
	{"reads", reads},
	{"many", many},
	{"dashboard", dashboard},
	{"rules", rules},
	{"reduced", reduced},
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("readers", flag.ContinueOnError)
	series := flags.Int("series", 3200, "about how many series of http_requests_total")
	hours := flags.Int("hours", 24, "hours of samples")
	interval := flags.Duration("interval", 15*time.Second, "the samples' distance")
	rounds := flags.Int("rounds", 10, "how often each is asked")
	only := flags.String("cases", "", "which cases to run, with commas between; all if empty")
	extra := flags.String("promwarp", "", "further flags of promwarp, with spaces between")
	if err := flags.Parse(args); err != nil {
		return err
	}
	now := time.Now().Truncate(10 * time.Minute)
	settled := now.Add(-time.Hour)
	b := &bench{out: out, rounds: *rounds, settled: settled.UnixMilli(), o: dataset.Options{
		// The future, so that rules have samples for as long as this runs.
		Start: settled.Add(-time.Duration(*hours) * time.Hour).UnixMilli(), End: now.Add(59 * time.Minute).UnixMilli(), Series: *series * 68 / 32, Interval: *interval, Seed: 1,
	}}
	if b.dir, err = os.MkdirTemp("", "promwarp-readers-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	defer b.stop()
	if err := b.start(ctx, strings.Fields(*extra)); err != nil {
		return err
	}
	for _, c := range cases {
		if *only != "" && !strings.Contains(","+*only+",", ","+c.name+",") {
			continue
		}
		if err := c.run(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

// start makes the data and starts both servers.
func (b *bench) start(ctx context.Context, flags []string) error {
	stats, err := dataset.WriteBlocks(ctx, filepath.Join(b.dir, "data"), b.o, nil)
	if err != nil {
		return err
	}
	fmt.Fprintf(b.out, "%d series, %d samples, %d cores\n", stats.Series, stats.Samples, runtime.NumCPU())
	repository, err := peers.FindRepository(ctx)
	if err != nil {
		return err
	}
	if b.binary, err = repository.Prometheus(ctx, func(s string) { fmt.Fprintln(os.Stderr, s) }); err != nil {
		return err
	}
	if b.upstream, err = peers.StartPrometheus(ctx, b.binary, b.dir); err != nil {
		return err
	}
	if b.program, err = repository.Promwarp(ctx, b.dir); err != nil {
		return err
	}
	b.promwarp, err = peers.StartPromwarpBefore(ctx, b.program, b.upstream.URL, flags...)
	return err
}

func (b *bench) stop() {
	for _, p := range []*peers.Process{b.promwarp, b.upstream} {
		if p != nil {
			p.Kill()
		}
	}
}
