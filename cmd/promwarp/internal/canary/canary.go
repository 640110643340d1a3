// Package canary asks a part of all queries again, of promwarp and of the Prometheus that it reads
// from, counts where the answers differ, and measures how long both took.
//
// Canary.Answered is told of each query that was evaluated. Chosen ones wait in line until their newest
// samples are settled, and no request waits. Then both sides are asked by compare.Measure, as promwarp
// compare does. Start reading at Canary.compare. Invariant: one comparison runs at a time, in bounds of
// time and bytes, and takes memory that no request needs. No request waits for it.
package canary

import (
	"cmp"
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
	lookEvery     = 100 * time.Millisecond // whether requests wait
	LongestAnswer = 16 << 20               // bytes; the clients of a canary read no more
)

// Sides in the metrics: who evaluated the query.
const byPrometheus, byPromwarp = "prometheus", "promwarp"

// Verdicts in the metrics.
const same, different, upstream, undecided = "same", "different", "upstream", "undecided"

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
	took              *prometheus.HistogramVec

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
	c.took = f.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "promwarp_compare_evaluation_seconds",
		Help:    "Time in which compared queries were evaluated, fetching included: by promwarp when a client asked, and by Prometheus's engine as that measured it when it was asked again.",
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 10),
	}, []string{"side"})
	for _, v := range []string{same, different, upstream, undecided} {
		c.compared.WithLabelValues(v)
	}
	for _, side := range []string{byPrometheus, byPromwarp} {
		c.took.WithLabelValues(side)
	}
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
	chosen := question{EvalStmt: stmt, text: q.String(), settled: time.UnixMilli(newest).Add(settledAfter)}
	if s := q.Stats(); s != nil && s.Timers != nil {
		chosen.took = s.Timers.GetTimer(stats.EvalTotalTime).Duration()
	}
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
			c.sleep(time.Until(q.settled))
			for c.ctx.Err() == nil && c.Busy() {
				c.sleep(lookEvery)
			}
			c.compare(q)
			c.pending.Add(-1)
		}
	}
}

// sleep waits, until Close at most.
func (c *Canary) sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-c.ctx.Done():
	}
}

// compare compares one query, and counts what came of it.
func (c *Canary) compare(q question) {
	s := c.settings.Load()
	ctx, end := context.WithTimeout(c.ctx, s.Timeout)
	defer end()
	var verdict, detail string
	err := parallel.Rescue(func() (err error) {
		verdict, detail, err = c.verdict(ctx, q, s)
		return err
	})
	switch {
	case c.ctx.Err() != nil: // the server stops
	case err == nil:
		c.compared.WithLabelValues(verdict).Inc()
		if verdict != same { // ten lines in the log, and one each ten seconds from there on
			c.often.Do(func() {
				c.Logger.Log(c.ctx, said[verdict].level, said[verdict].text, "verdict", verdict, "difference", fmt.Sprintf("%.2000s", detail),
					"query", fmt.Sprintf("%.2000s", q.text), "start", q.Start.UTC(), "end", q.End.UTC(), "step", q.Interval)
			})
		}
	case ctx.Err() != nil:
		c.skipped.WithLabelValues("timeout").Inc()
	case client.Busy(err) || memory.Exhausted(err):
		c.skipped.WithLabelValues("busy").Inc()
	default:
		c.skipped.WithLabelValues("failed").Inc()
		c.often.Do(func() { c.Logger.Warn("a query could not be compared", "err", err) })
	}
}

// verdict asks both sides.
func (c *Canary) verdict(ctx context.Context, q question, s *Settings) (verdict, detail string, err error) {
	const answers = 4 * LongestAnswer // two, as text and read
	if !c.Memory.Spare(memory.Evaluation, answers) {
		return "", "", &memory.BusyError{Limit: c.Memory.Limit()}
	}
	defer c.Memory.Count(memory.Evaluation, -answers)
	path, form := client.Form(q.text, q.Start, q.End, q.Interval)
	form.Set("lookback_delta", client.Seconds(q.LookbackDelta))
	var evaluated time.Duration // by Prometheus's engine, at first
	var failure error           // why an answer says nothing about promwarp
	side := func(server *client.Client, executor string) compare.Side {
		extra := url.Values{"executor": {executor}}
		if executor != "auto" {
			extra.Set("stats", "true") // promwarp reuses no results where they are asked for
		}
		ask := server.Side(path, form, extra)
		return func(ctx context.Context) (*compare.Answer, error) {
			a, err := ask(ctx)
			if err != nil && (client.Busy(err) || !errors.As(err, new(*compare.Refused))) {
				failure = err
			}
			if err == nil && executor != "auto" {
				evaluated = cmp.Or(evaluated, a.Evaluated)
			}
			return a, err
		}
	}
	rounds := compare.Rounds{Prometheus: 1}
	function, magnified := compare.Inexact(q.Expr)
	if function != "" && s.Exact != plan.Bits {
		rounds.Tolerance = plan.Tolerance
	}
	promwarp, engine := side(c.Promwarp, "auto"), side(c.Promwarp, "prometheus")
	prometheus := engine
	if s.Upstream != nil {
		prometheus = side(s.Upstream, "")
	}
	row, err := compare.Measure(ctx, prometheus, promwarp, rounds)
	if failure == nil && err == nil && evaluated > 0 { // not of an upstream that does not say
		c.took.WithLabelValues(byPrometheus).Observe(evaluated.Seconds())
		c.took.WithLabelValues(byPromwarp).Observe(q.took)
	}
	switch {
	case failure != nil || err != nil || row.Verdict == compare.NotCompared:
		return "", "", cmp.Or(failure, err, errors.New(row.Detail))
	case row.Verdict == compare.Same:
		return same, "", nil
	case row.Verdict == compare.Undecided || rounds.Tolerance > 0 && magnified:
		return undecided, row.Detail, nil
	case s.Upstream != nil:
		alike, err := compare.Measure(ctx, engine, promwarp, rounds)
		if err == nil && failure == nil && alike.Verdict == compare.Same {
			return upstream, row.Detail, nil
		}
	}
	return different, row.Detail, ctx.Err()
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
