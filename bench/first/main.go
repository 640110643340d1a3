// First measures the first answer of a promwarp that has nothing in its cache, beside the
// Prometheus that it fetches from:
//
//	make bench-first ARGS='-dir DIR [-days 30] [-series 480] [-rounds 5]'
//
// It writes counters into DIR/data as blocks of a Prometheus, unless there are some (data.go).
// Then a Prometheus answers from them. Each round asks it, and a promwarp that has just started,
// each query in turn; an answer that differs is an error. A table has the median of their times,
// and the least time on cores, of promwarp and of the Prometheus that it asks. The end is
// what promwarp itself says of a first answer. -prometheus and -promwarp name programs that are
// built, for a machine without Go; taskset around all of it sets the cores, as run.sh does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/promwarp/promwarp/bench/answer"
	"github.com/promwarp/promwarp/bench/peers"
	"github.com/promwarp/promwarp/bench/report"
)

// queries are asked for all days at a step of an hour.
var queries = []string{
	"sum by (job) (rate(m_total[5m]))",
	"sum by (job) (increase(m_total[1h]))",
	"max by (job) (max_over_time(m_total[1h]))",
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "first:", err)
		os.Exit(1)
	}
}

// bench is what all rounds share.
type bench struct {
	out        io.Writer
	dir        string
	rounds     int
	start, end time.Time
	step       time.Duration
	flags      []string      // of promwarp
	binary     peers.Program // Prometheus
	program    peers.Program // promwarp
	upstream   *peers.Process
}

// costs are what the rounds of a query took.
type costs struct {
	prometheus, promwarp []cost
	store                []time.Duration // of cores, what the Prometheus took for promwarp
}

// cost is what one answer took.
type cost struct {
	time, cpu time.Duration
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("first", flag.ContinueOnError)
	b := &bench{out: out}
	flags.StringVar(&b.dir, "dir", "", "where the samples are, or will be")
	days := flags.Int("days", 30, "days of samples")
	series := flags.Int("series", 480, "counters, four samples a minute each")
	flags.IntVar(&b.rounds, "rounds", 5, "how often each query is asked; 0 writes samples only")
	flags.DurationVar(&b.step, "step", time.Hour, "of the queries")
	flags.StringVar(&b.binary.Path, "prometheus", "", "a Prometheus that is built; empty builds one")
	flags.StringVar(&b.program.Path, "promwarp", "", "a promwarp that is built; empty builds it")
	extra := flags.String("flags", "", "further flags of promwarp, with spaces between")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if b.dir == "" {
		return errors.New("-dir is missing")
	}
	b.flags = strings.Fields(*extra)
	if err := b.samples(ctx, *series, *days); err != nil || b.rounds == 0 {
		return err
	}
	if err := b.build(ctx); err != nil {
		return err
	}
	var err error
	if b.upstream, err = peers.StartPrometheus(ctx, b.binary, b.dir); err != nil {
		return err
	}
	defer b.upstream.Kill()
	return b.measure(ctx)
}

// samples writes samples, or finds them written.
func (b *bench) samples(ctx context.Context, series, days int) error {
	data := filepath.Join(b.dir, "data")
	written := filepath.Join(b.dir, "end")
	text, err := os.ReadFile(written)
	if err == nil {
		b.end, err = time.Parse(time.RFC3339, string(text))
		b.start = b.end.AddDate(0, 0, -days)
		return err
	}
	if err := os.MkdirAll(data, 0o755); err != nil {
		return err
	}
	b.end = time.Now().UTC().Add(-time.Hour).Truncate(2 * time.Hour)
	b.start = b.end.AddDate(0, 0, -days)
	began := time.Now()
	if err := writeBlocks(ctx, data, series, b.start.UnixMilli(), b.end.UnixMilli()); err != nil {
		return err
	}
	fmt.Fprintf(b.out, "samples written in %s\n", time.Since(began).Round(time.Second))
	return os.WriteFile(written, []byte(b.end.Format(time.RFC3339)), 0o644)
}

// build builds the programs that are not built yet.
func (b *bench) build(ctx context.Context) error {
	if b.binary.Path != "" && b.program.Path != "" {
		return nil
	}
	repository, err := peers.FindRepository(ctx)
	if err != nil {
		return err
	}
	if b.binary.Path == "" {
		if b.binary, err = repository.Prometheus(ctx, func(s string) { fmt.Fprintln(os.Stderr, s) }); err != nil {
			return err
		}
	}
	if b.program.Path == "" {
		b.program, err = repository.Promwarp(ctx, b.dir)
	}
	return err
}

// form asks for all days but the first hour.
func (b *bench) form(query string) url.Values {
	return url.Values{"query": {query}, "step": {b.step.String()},
		"start": {b.start.Add(time.Hour).Format(time.RFC3339)}, "end": {b.end.Format(time.RFC3339)}}
}

func (b *bench) measure(ctx context.Context) error {
	fmt.Fprintf(b.out, "%d cores, %s at a step of %s\n", runtime.GOMAXPROCS(0), b.end.Sub(b.start), b.step)
	w := tabwriter.NewWriter(b.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "Prometheus ms\tpromwarp first ms\tleast\tspeed-up\tcores': Prometheus ms\tpromwarp ms\tits store's ms\t  query")
	for _, query := range queries {
		var all costs
		for range b.rounds {
			if err := b.round(ctx, query, &all); err != nil {
				return fmt.Errorf("%s: %w", query, err)
			}
		}
		asked, first := times(all.prometheus), times(all.promwarp)
		fmt.Fprintf(w, "%.0f\t%.0f\t%.0f\t%.2f\t%d\t%d\t%d\t  %s\n", asked.Median, first.Median, first.Min, asked.Median/first.Median,
			cpu(all.prometheus).Milliseconds(), cpu(all.promwarp).Milliseconds(), slices.Min(all.store).Milliseconds(), query)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return b.explain(ctx)
}

// round asks the Prometheus and a promwarp that has just started.
func (b *bench) round(ctx context.Context, query string, all *costs) error {
	want, asked, err := b.ask(ctx, b.upstream, query)
	if err != nil {
		return err
	}
	p, err := peers.StartPromwarpBefore(ctx, b.program, b.upstream.URL, b.flags...)
	if err != nil {
		return err
	}
	defer p.Kill()
	before, err := b.upstream.CPU()
	if err != nil {
		return err
	}
	got, first, err := b.ask(ctx, p, query)
	if err != nil {
		return err
	}
	after, err := b.upstream.CPU()
	if err != nil {
		return err
	}
	if !got.Equal(want) {
		return errors.New("the answers differ")
	}
	all.prometheus, all.promwarp, all.store = append(all.prometheus, asked), append(all.promwarp, first), append(all.store, after-before)
	return nil
}

// ask asks a server.
func (b *bench) ask(ctx context.Context, p *peers.Process, query string) (answer.Answer, cost, error) {
	before, err := p.CPU()
	if err != nil {
		return answer.Answer{}, cost{}, err
	}
	a, err := answer.Ask(ctx, p.URL, b.form(query), nil)
	if err = errors.Join(err, a.Err()); err != nil {
		return a, cost{}, err
	}
	after, err := p.CPU()
	return a, cost{a.Took, after - before}, err
}

// explain prints what a promwarp that has just started says of its first answer.
func (b *bench) explain(ctx context.Context) error {
	p, err := peers.StartPromwarpBefore(ctx, b.program, b.upstream.URL, b.flags...)
	if err != nil {
		return err
	}
	defer p.Kill()
	form := b.form(queries[0])
	form.Set("analyze", "true")
	form.Set("format", "text")
	text, err := peers.Get(ctx, p.URL+"/explain?"+form.Encode())
	if err != nil {
		return err
	}
	fmt.Fprintf(b.out, "\n%s", text)
	return nil
}

func times(costs []cost) report.Timing {
	all := make([]time.Duration, len(costs))
	for i, c := range costs {
		all[i] = c.time
	}
	return report.NewTiming(all)
}

// cpu is the least time on cores.
func cpu(costs []cost) time.Duration {
	return slices.MinFunc(costs, func(a, b cost) int { return int(a.cpu - b.cpu) }).cpu
}
