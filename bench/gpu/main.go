// Gpu measures what a GPU does for queries, on the machine that it runs on:
//
//	make gpubench
//	bin/gpubench [-shapes] [-resample] [-crossover] [-out results.json]
//
// It is one file that needs the NVIDIA driver and the system's C library, and makes all data
// itself. Subjects are timed on the cores, on the GPU with their chunks in page-locked memory of
// the host, and on the GPU with their chunks there already (rig.go): shapes of queries,
// resample requests, and sums of rates over ever more samples. Answers are compared, and one
// that is wrong makes the program fail.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"syscall"
	"time"

	"github.com/prometheus/common/version"

	"github.com/promwarp/promwarp/bench/report"
	"github.com/promwarp/promwarp/gpuexec/device"
	"github.com/promwarp/promwarp/planner/placement"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:], os.Stderr)
	if err == nil {
		err = o.run(ctx, os.Stdout, os.Stderr)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "gpubench:", err)
		os.Exit(1)
	}
}

// options are what the flags say.
type options struct {
	shapes, crossover, resample bool

	match           *regexp.Regexp
	series, samples int
	most            float64
	limits          report.Limits
	memory          float64
	library, out    string
}

func parse(args []string, w io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("gpubench", flag.ContinueOnError)
	f.SetOutput(w)
	f.BoolVar(&o.shapes, "shapes", false, "measure shapes of queries; takes about 8 GB of memory, and as much of the GPU's")
	f.BoolVar(&o.resample, "resample", false, "measure resample requests; takes as much memory as -shapes")
	f.BoolVar(&o.crossover, "crossover", false, "measure from how many samples on the GPU is faster")
	match := f.String("match", "", "of -shapes and -resample: regular expression of the names of the queries to measure; empty for all")
	f.IntVar(&o.series, "series", 100_000, "of -shapes and -resample: series of a metric")
	f.IntVar(&o.samples, "samples", 10_000, "of -shapes and -resample: samples of a series")
	f.Float64Var(&o.most, "most", 1e9, "of -crossover: samples of the largest size")
	f.IntVar(&o.limits.Rounds, "rounds", 9, "how often to time one thing, at most")
	f.DurationVar(&o.limits.Budget, "budget", 1500*time.Millisecond, "how long the rounds of one thing may take before no other begins")
	f.Float64Var(&o.memory, "memory", 0.5, "part of the GPU's free memory that promwarp takes for -shapes, -resample and -crossover")
	f.StringVar(&o.library, "library", device.Library, "the CUDA driver's library")
	f.StringVar(&o.out, "out", "", "file for the results in JSON")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	var err error
	o.match, err = regexp.Compile(*match)
	switch {
	case f.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	case err != nil:
		return nil, fmt.Errorf("-match: %w", err)
	case !o.shapes && !o.crossover && !o.resample:
		return nil, errors.New("say what to measure: -shapes, -resample, -crossover, or several")
	case o.series < 1 || o.samples < 8 || o.limits.Rounds < 1:
		return nil, errors.New("-series and -rounds must be at least 1, -samples at least 8")
	}
	return o, nil
}

// results are what was measured, and on what.
type results struct {
	Date      string            `json:"date"`
	Commit    string            `json:"commit"`
	Machine   *device.Inventory `json:"machine"`
	Cores     int               `json:"cores"`
	Processor string            `json:"processor"`
	Shapes    []Row             `json:"shapes,omitempty"`
	Resampled []Row             `json:"resampled,omitempty"`
	Crossover []Row             `json:"crossover,omitempty"`
}

func (o *options) run(ctx context.Context, w, log io.Writer) error {
	r := &results{
		Date: time.Now().UTC().Format(time.RFC3339), Commit: version.GetRevision(), Cores: runtime.GOMAXPROCS(0), Processor: report.Processor(),
		Machine: device.TakeInventory(o.library),
	}
	if !r.Machine.Usable() {
		reason := r.Machine.Reason
		for _, d := range r.Machine.Devices {
			reason = cmp.Or(reason, d.Reason)
		}
		return fmt.Errorf("no GPU is usable: %s", reason)
	}
	say := func(format string, args ...any) { fmt.Fprintf(log, format+"\n", args...) }
	var saving, failed error
	save := func() {
		if o.out != "" {
			saving = errors.Join(saving, report.WriteJSON(o.out, r))
		}
	}
	for _, part := range []struct {
		wanted bool
		f      func(*rig) error
	}{
		{o.crossover, func(g *rig) error {
			return g.crossover(ctx, o.most, func(rows []Row) { r.Crossover = rows; save() })
		}},
		{o.shapes, func(g *rig) error { return g.shapes(ctx, func(rows []Row) { r.Shapes = rows; save() }) }},
		{o.resample, func(g *rig) error { return g.requests(ctx, func(rows []Row) { r.Resampled = rows; save() }) }},
	} {
		if part.wanted {
			failed = errors.Join(failed, o.withGPUs(log, func(gpus *placement.Placer) error {
				return part.f(&rig{Limits: o.limits, gpus: gpus, series: o.series, samples: o.samples, names: o.match, log: say})
			}))
		}
	}
	return errors.Join(failed, saving, r.tables(w))
}

// withGPUs opens the first GPU as promwarp does, and measures its constants.
func (o *options) withGPUs(log io.Writer, f func(gpus *placement.Placer) error) error {
	gpus, err := placement.Open(placement.Options{Options: device.Options{
		Require: true, Devices: []int{0}, MemoryFraction: o.memory, Library: o.library, Logger: slog.New(slog.NewTextHandler(log, nil)),
	}})
	if err != nil {
		return err
	}
	defer gpus.Close()
	return f(gpus)
}

func (r *results) tables(w io.Writer) error {
	fmt.Fprintf(w, "%s, driver %s, %d cores of %s, commit %s\n", r.Machine.Devices[0].Name, r.Machine.Driver, r.Cores, r.Processor, r.Commit)
	for _, t := range []*report.Table{
		crossoverTable(r.Crossover), tableOf("Whole queries, ms:", r.Shapes),
		tableOf("Resample requests, ms from the plan to the values in the host's memory:", r.Resampled),
	} {
		if len(t.Rows) == 0 {
			continue
		}
		if err := t.Write(w); err != nil {
			return err
		}
	}
	return nil
}
