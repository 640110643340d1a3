// Package canary asks a part of all queries again, of promwarp and of the Prometheus that it reads
// from, counts where the answers differ, and measures how long both took.
//
// Canary.Answered is told of each query that was evaluated. Chosen ones wait in line until their newest
// samples are settled. Then both sides are asked by compare.Measure, as promwarp compare does. Start
// reading at Canary.ask. Invariant: one comparison runs at a time, in bounds of time and bytes, takes
// memory that no request needs, and no request waits for it.
package canary

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/stats"
	"golang.org/x/time/rate"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/client"
	"github.com/promwarp/promwarp/engine/compare"
	"github.com/promwarp/promwarp/internal/instrument"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
)

const (
	settledAfter  = 10 * time.Minute       // the age of samples from which both sides have the same: cache.recheck and more
	mostWaiting   = 1000                   // queries that wait
	longestWait   = 20 * time.Minute       // of one query for its samples: others wait for it
	lookEvery     = 100 * time.Millisecond // whether samples are settled and no requests wait
	LongestAnswer = 16 << 20               // bytes; the clients of a canary read no more

	same, different, upstream, undecided = "same", "different", "upstream", "undecided" // verdicts in the metrics
)

// Settings say which queries are compared, and with what.
type Settings struct {
	Fraction float64        // of all queries, 0 to 1
	Timeout  time.Duration  // of one comparison
	Upstream *client.Client // nil for Prometheus's engine inside promwarp
	Exact    plan.Exact     // how exact promwarp's answers are
}

// Options are what a canary works with.
type Options struct {
	Promwarp   *client.Client
	Busy       func() bool  // whether requests wait for cores
	Memory     *memory.Pool // may be nil
	Logger     *slog.Logger
	Registerer prometheus.Registerer // may be nil
}

// Canary compares queries. It is safe for concurrent use.
type Canary struct {
	Options
	settings          atomic.Pointer[Settings]
	often             rate.Sometimes
	compared, skipped *prometheus.CounterVec
	theirs, ours      prometheus.Observer // seconds in which Prometheus's engine and promwarp evaluated

	ctx     context.Context
	cancel  context.CancelFunc
	waiting chan question
	pending atomic.Int64   // queries that wait or are compared
	worker  sync.WaitGroup // compares
}

// New returns a canary that compares nothing until Set.
func New(o Options) *Canary {
	c := &Canary{Options: o, waiting: make(chan question, mostWaiting), often: rate.Sometimes{First: 10, Interval: 10 * time.Second}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.Set(Settings{})
	f := instrument.With(o.Registerer)
	c.compared = f.Counters("promwarp_compare_queries_total", "Queries that were asked of promwarp and the upstream again, by whether the answers were the same, different, different though Prometheus's engine inside promwarp has promwarp's (upstream), or undecided.", "verdict")
	c.skipped = f.Counters("promwarp_compare_skipped_total", "Queries that were chosen to be compared and were not, by reason.", "reason")
	f.GaugeOf("promwarp_compare_running", "Queries that were chosen, and are compared or wait for that.", func() float64 { return float64(c.Pending()) })
	f.GaugeOf("promwarp_compare_sampled_ratio", "Share of all queries that are chosen to be compared: compare.fraction.", func() float64 { return c.settings.Load().Fraction })
	took := f.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "promwarp_compare_evaluation_seconds",
		Help:    "Time in which compared queries were evaluated, fetching included: by promwarp when a client asked, and by Prometheus's engine as that measured it when it was asked again.",
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 10),
	}, []string{"side"})
	for _, v := range []string{same, different, upstream, undecided} {
		c.compared.WithLabelValues(v)
	}
	c.theirs, c.ours = took.WithLabelValues("prometheus"), took.WithLabelValues("promwarp")
	c.worker.Go(c.work)
	return c
}

// Set changes the settings.
func (c *Canary) Set(s Settings) { c.settings.Store(&s) }

// Close ends what runs, and has nothing begin any more.
func (c *Canary) Close() {
	c.cancel()
	c.worker.Wait()
	c.pending.Store(0)
}

// Pending is how many queries wait or are compared.
func (c *Canary) Pending() int { return int(c.pending.Load()) }

// Answered is told of a query that was evaluated, and of the address that it was asked from. One that
// Prometheus's engine evaluated alone is not compared, nor are those from inside, as the canary's own.
func (c *Canary) Answered(address string, q promql.Query) {
	ours, ok := q.(interface{ Executors() string }) // an engine.Query
	stmt, isQuery := q.Statement().(*parser.EvalStmt)
	if !ok || !isQuery || address == client.InsideAddress || ours.Executors() == plan.OnPrometheus || ours.Executors() == "" || rand.Float64() >= c.settings.Load().Fraction {
		return
	}
	_, newest := promql.FindMinMaxTime(stmt)
	took := q.Stats().Timers.GetTimer(stats.EvalTotalTime).Duration()
	chosen := question{EvalStmt: stmt, text: q.String(), settled: time.UnixMilli(newest).Add(settledAfter), took: took}
	if time.Until(chosen.settled) > longestWait {
		c.skipped.WithLabelValues("unsettled").Inc()
		return
	}
	select {
	case c.waiting <- chosen:
		c.pending.Add(1)
	default:
		c.skipped.WithLabelValues("waiting").Inc()
	}
}

// question is a query that is compared.
type question struct {
	*parser.EvalStmt
	text    string
	settled time.Time // when its samples are
	took    float64   // seconds in which promwarp evaluated it when a client asked
}

// work compares the queries that wait, one after the other, until Close.
func (c *Canary) work() {
	for c.ctx.Err() == nil {
		select {
		case <-c.ctx.Done():
		case q := <-c.waiting:
			for c.ctx.Err() == nil && (time.Now().Before(q.settled) || c.Busy()) {
				time.Sleep(lookEvery)
			}
			c.compare(q)
			c.pending.Add(-1)
		}
	}
}

// compare compares one query in its bounds, and counts what was not compared.
func (c *Canary) compare(q question) {
	s := c.settings.Load()
	ctx, end := context.WithTimeout(c.ctx, s.Timeout)
	defer end()
	err := parallel.Rescue(func() error { return c.ask(ctx, q, s) })
	switch {
	case err == nil || c.ctx.Err() != nil: // compared, or the server stops
	case ctx.Err() != nil:
		c.skipped.WithLabelValues("timeout").Inc()
	case client.Busy(err) || memory.Exhausted(err):
		c.skipped.WithLabelValues("busy").Inc()
	default:
		c.skipped.WithLabelValues("failed").Inc()
		c.often.Do(func() { c.Logger.Warn("a query could not be compared", "err", err) })
	}
}

// ask asks both sides, and counts what came of it. An error says why nothing did.
func (c *Canary) ask(ctx context.Context, q question, s *Settings) error {
	const answers = 4 * LongestAnswer // two, as text and read
	if !c.Memory.Spare(memory.Evaluation, answers) {
		return &memory.BusyError{Limit: c.Memory.Limit()}
	}
	defer c.Memory.Count(memory.Evaluation, -answers)
	path, form := client.Form(q.text, q.Start, q.End, q.Interval)
	form.Set("lookback_delta", client.Seconds(q.LookbackDelta))
	asking, fail := context.WithCancelCause(ctx) // for an answer that says nothing about promwarp
	defer fail(nil)
	side := func(server *client.Client, extra url.Values) compare.Side {
		ask := server.Side(path, form, extra)
		return func(ctx context.Context) (*compare.Answer, error) {
			a, err := ask(ctx)
			if client.Busy(err) || err != nil && !errors.As(err, new(*compare.Refused)) {
				fail(err)
			}
			return a, err
		}
	}
	rounds := compare.Rounds{Prometheus: 1}
	function, magnified := compare.Inexact(q.Expr)
	if function != "" && s.Exact != plan.Bits {
		rounds.Tolerance = plan.Tolerance
	}
	promwarp := side(c.Promwarp, url.Values{"executor": {"auto"}}) // without statistics, with which it reuses no results
	engine := side(c.Promwarp, url.Values{"executor": {"prometheus"}, "stats": {"true"}})
	prometheus := engine
	if s.Upstream != nil {
		prometheus = side(s.Upstream, url.Values{"stats": {"true"}})
	}
	row, _ := compare.Measure(asking, prometheus, promwarp, rounds) // which fails only with asking
	if err := context.Cause(asking); err != nil {
		return err
	}
	if row.Evaluated > 0 { // not of an upstream that does not say
		c.theirs.Observe(row.Evaluated / 1000)
		c.ours.Observe(q.took)
	}
	verdict := different
	switch {
	case row.Verdict == compare.NotCompared:
		return errors.New(row.Detail)
	case row.Verdict == compare.Same:
		verdict = same
	case row.Verdict == compare.Undecided || rounds.Tolerance > 0 && magnified:
		verdict = undecided
	case s.Upstream != nil:
		if alike, err := compare.Measure(asking, engine, promwarp, rounds); err == nil && alike.Verdict == compare.Same {
			verdict = upstream
		} else if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	c.compared.WithLabelValues(verdict).Inc()
	if verdict != same { // ten lines in the log, and one each ten seconds from there on
		c.often.Do(func() {
			c.Logger.Log(c.ctx, said[verdict].level, said[verdict].text, "verdict", verdict, "difference", fmt.Sprintf("%.2000s", row.Detail),
				"query", fmt.Sprintf("%.2000s", q.text), "start", q.Start.UTC(), "end", q.End.UTC(), "step", q.Interval)
		})
	}
	return nil
}

// said is what the log says of verdicts other than the same.
var said = map[string]struct {
	level slog.Level
	text  string
}{
	different: {slog.LevelError, "an answer differs from Prometheus's; please report this"},
	upstream:  {slog.LevelWarn, "an answer differs from the upstream's and is that of Prometheus's engine over the samples in the cache: the upstream has other samples, or is of another version"},
	undecided: {slog.LevelInfo, "an answer differs from Prometheus's, which may not be wrong"},
}
