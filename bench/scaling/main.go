// Scaling measures how the CPU executor's time falls with the number of cores, and what series
// with times of their own cost, without a network or other servers:
//
//	make scaling
//	bin/scaling [-cores 1,2,4,8,16] [-jitter none,scrape,series] [-queries regexp] [-profile 16]
//
// It makes counters and gauges of a day (selection/synthetic), asks promwarp's engine for the same day until
// all samples are decoded, and then takes the least time of some rounds. Efficiency is the time
// on the first number of cores over the time on more, per core. With -profile it asks all queries
// on so many cores once more and prints where cores worked, where goroutines waited and which
// mutexes they waited for; the profiles are left in the folder -out.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/selection/synthetic"
)

// queries are asked at each step of a minute of a day, of which the first ten minutes are left out.
var queries = []string{
	"sum by (job) (rate(m[5m]))",
	"sum by (job, code) (increase(m[1h]))",
	"avg by (job, code) (g)",
	"max by (job) (max_over_time(g[30m]))",
	"quantile by (job) (0.9, avg_over_time(g[5m]))",
	"sum by (job) (deriv(g[15m]))",
	"sum by (job) (deriv(s[15m]))",
	"sum by (job) (predict_linear(g[1h], 3600))",
	"sum by (job) (stddev_over_time(g[30m]))",
	"sum by (job) (stddev_over_time(s[30m]))",
	"sum by (job) (quantile_over_time(0.9, g[1h]))",
	"sum by (job) (mad_over_time(one[1h]))",
	"sum by (job) (double_exponential_smoothing(one[15m], 0.3, 0.3))",
	"sum(avg_over_time(g[1d]))",
	"sum(avg_over_time(s[1d]))",
	"sum(rate(m[5m]))",
	"sum by (job) (rate(m[5m])) / sum by (job) (increase(m[5m]))",
	"topk(5, sum by (instance) (rate(m[5m])))",
	"rate(one[5m])",
}

func main() {
	o, err := parse(os.Args[1:], os.Stderr)
	if err == nil {
		err = o.run(os.Stdout)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "scaling:", err)
		os.Exit(1)
	}
}

// options are what the flags say.
type options struct {
	series, hours int
	cores         []int
	jitter        []string
	queries       []string
	rounds        int
	work          bool
	profile       int
	out           string
}

func parse(args []string, w io.Writer) (o options, err error) {
	f := flag.NewFlagSet("scaling", flag.ContinueOnError)
	f.SetOutput(w)
	f.IntVar(&o.series, "series", 2000, "series of the largest metric")
	f.IntVar(&o.hours, "hours", 24, "hours of samples, one every 15 s")
	cores := f.String("cores", "1,2,4,8,16", "numbers of cores to measure, as far as the machine has them")
	jitter := f.String("jitter", "none,series", "how times differ: none, scrape (of targets), series (of each series)")
	match := f.String("queries", "", "regular expression of the queries to ask; empty for all")
	f.IntVar(&o.rounds, "rounds", 5, "how often to time each query, at most; two rounds are enough that take a third of a second")
	f.BoolVar(&o.work, "work", false, "take the cores' time in place of what passes, for machines with other work")
	f.IntVar(&o.profile, "profile", 0, "cores on which to profile all queries; 0 for none")
	f.StringVar(&o.out, "out", ".", "folder for profiles")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	for s := range strings.SplitSeq(*cores, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return o, fmt.Errorf("-cores: %q is no number of cores", s)
		}
		if n <= runtime.NumCPU() || len(o.cores) == 0 {
			o.cores = append(o.cores, n)
		}
	}
	for s := range strings.SplitSeq(*jitter, ",") {
		if s != "none" && s != "scrape" && s != "series" {
			return o, fmt.Errorf("-jitter: there is no %q", s)
		}
		o.jitter = append(o.jitter, s)
	}
	re, err := regexp.Compile(*match)
	if err != nil {
		return o, fmt.Errorf("-queries: %w", err)
	}
	for _, q := range queries {
		if re.MatchString(q) {
			o.queries = append(o.queries, q)
		}
	}
	return o, nil
}

// run measures and prints tables, in ms.
func (o *options) run(w io.Writer) error {
	var even [][]float64 // of the first kind of times, by query and cores
	for n, jitter := range o.jitter {
		data, err := synthetic.NewMetrics(o.series, o.hours*3600_000/synthetic.Interval, jitter)
		if err != nil {
			return err
		}
		times, err := o.measure(data)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "\nTimes differ: %s. %d series of m, %d h; least times in ms.\n\n", jitter, o.series, o.hours)
		o.print(w, times)
		if n == 0 {
			even = times
		} else {
			o.compare(w, even, times)
		}
		if o.profile > 0 {
			if err := o.profiles(w, data, jitter); err != nil {
				return err
			}
		}
	}
	return nil
}

// measure returns the least time in ms of each query on each number of cores.
func (o *options) measure(data synthetic.Metrics) ([][]float64, error) {
	times := make([][]float64, len(o.queries))
	for _, n := range o.cores {
		runtime.GOMAXPROCS(n)
		e := newEngine()
		for i, q := range o.queries {
			least := math.Inf(1)
			begin := time.Now()
			for round := 0; round <= o.rounds && (round < 3 || time.Since(begin) < time.Second/3); round++ {
				start := o.clock()
				if err := o.ask(e, data, q); err != nil {
					return nil, err
				}
				if took := o.clock() - start; round > 0 {
					least = min(least, float64(took.Microseconds())/1000)
				}
			}
			times[i] = append(times[i], least)
		}
		if err := e.Close(); err != nil {
			return nil, err
		}
	}
	return times, nil
}

// clock is the time that has passed, or that cores have worked.
func (o *options) clock() time.Duration {
	if !o.work {
		return time.Since(began)
	}
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // fails for no process of its own
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

var began = time.Now()

func newEngine() *engine.Engine {
	return engine.New(engine.Options{
		DecodedBytes: 4 << 30,
		Prometheus: promql.EngineOpts{
			MaxSamples: 100_000_000, Timeout: time.Minute, EnableAtModifier: true, EnableNegativeOffset: true,
			Parser: parser.NewParser(parser.Options{EnableExperimentalFunctions: true}), Reg: prometheus.NewRegistry(),
		},
	})
}

func (o *options) ask(e *engine.Engine, data synthetic.Metrics, query string) error {
	end := time.UnixMilli(synthetic.Start).Add(time.Duration(o.hours) * time.Hour)
	q, err := e.NewRangeQuery(context.Background(), data, nil, query, time.UnixMilli(synthetic.Start).Add(10*time.Minute), end, time.Minute)
	if err != nil {
		return err
	}
	defer q.Close()
	if err := q.Exec(context.Background()).Err; err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	return nil
}

// print prints times, and how efficient more cores are.
func (o *options) print(w io.Writer, times [][]float64) {
	fmt.Fprint(w, "| query |")
	for _, n := range o.cores {
		fmt.Fprintf(w, " %d |", n)
	}
	fmt.Fprintf(w, " efficiency |\n| --- |%s\n", strings.Repeat(" ---: |", len(o.cores)+1))
	last := len(o.cores) - 1
	sums := make([]float64, len(o.cores)) // of logarithms
	for i, q := range o.queries {
		fmt.Fprintf(w, "| `%s` |", q)
		for k, t := range times[i] {
			fmt.Fprintf(w, " %.1f |", t)
			sums[k] += math.Log(t)
		}
		fmt.Fprintf(w, " %.2f |\n", o.efficiency(times[i][0], times[i][last], last))
	}
	fmt.Fprint(w, "| geometric mean |")
	for k := range sums {
		sums[k] = math.Exp(sums[k] / float64(len(o.queries)))
		fmt.Fprintf(w, " %.1f |", sums[k])
	}
	fmt.Fprintf(w, " %.2f |\n", o.efficiency(sums[0], sums[last], last))
}

// efficiency is the share of what the k-th number of cores could save that it does save.
func (o *options) efficiency(first, then float64, k int) float64 {
	return first / then * float64(o.cores[0]) / float64(o.cores[k])
}

// compare prints how many times as long as the first kind of times another takes.
func (o *options) compare(w io.Writer, even, times [][]float64) {
	for k, n := range o.cores {
		sum, most, of := 0.0, 0.0, ""
		for i, q := range o.queries {
			ratio := times[i][k] / even[i][k]
			if sum += math.Log(ratio); ratio > most {
				most, of = ratio, q
			}
		}
		fmt.Fprintf(w, "\nOn %d cores these take %.2f times as long as the first; at most %.2f times: `%s`\n",
			n, math.Exp(sum/float64(len(o.queries))), most, of)
	}
}
