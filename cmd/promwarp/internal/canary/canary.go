// Package canary asks a part of all queries again, of promwarp and of the Prometheus that it reads
// from, and counts where the answers differ.
//
// Canary.Answered is told of each query that was evaluated. A chosen one waits until its newest
// samples are settled, and until no request waits. Then both sides are asked by compare.Measure, as
// promwarp compare does. Where the upstream has no HTTP API, or there are several upstreams, its side
// is Prometheus's engine inside promwarp, over the same cache.
//
// Invariant: one comparison runs at a time, in the bounds of Settings.Timeout, longestQuery and
// longestAnswer, and takes memory that nobody else needs. Nobody waits for it.
//
// Start reading at Canary.compare.
package canary

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"golang.org/x/time/rate"

	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/engine/compare"
	"github.com/promwarp/promwarp/internal/instrument"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/rescue"
	"github.com/promwarp/promwarp/plan"
)

const (
	// settledAfter is the age of samples from which both sides have the same: cache.recheck and more.
	settledAfter = 10 * time.Minute
	// mostWaiting is the number of queries that wait, longestWait how long one does at most.
	mostWaiting = 1000
	longestWait = time.Hour
	// longestQuery and longestAnswer are in bytes.
	longestQuery  = 10_000
	longestAnswer = 32 << 20
	// lookEvery is how often a canary looks whether requests wait.
	lookEvery = 100 * time.Millisecond
)

// Settings say which queries are compared, and with what.
type Settings struct {
	Fraction float64       // of all queries, 0 to 1
	Timeout  time.Duration // of one comparison
	Upstream http.Handler  // has its HTTP API; nil for Prometheus's engine inside promwarp
	Exact    plan.Exact    // how exact promwarp's answers are
}

// Options are what a canary works with.
type Options struct {
	Promwarp   http.Handler // answers in Prometheus's form; it has the parameter executor
	Busy       func() bool  // whether requests wait for cores
	Memory     *memory.Pool // may be nil
	Logger     *slog.Logger
	Registerer prometheus.Registerer // may be nil
}

// Canary compares queries. It is safe for concurrent use.
type Canary struct {
	o        Options
	settings atomic.Pointer[Settings]
	asked    atomic.Uint64 // queries that could be chosen
	often    rate.Sometimes

	compared, skipped *prometheus.CounterVec
	seconds           prometheus.Counter

	ctx    context.Context
	cancel context.CancelFunc
	works  sync.WaitGroup

	mu      sync.Mutex
	waiting []question    // by the time at which they are settled
	pending int           // those, and the one that is compared
	running bool          // a goroutine works on them
	added   chan struct{} // has an element when one was added
}

// question is a query that is compared.
type question struct {
	path    string
	form    url.Values
	settled time.Time
	// function and magnified are what compare.Inexact says of the query.
	function  string
	magnified bool
}

// New returns a canary that compares nothing until Set.
func New(o Options) *Canary {
	c := &Canary{o: o, added: make(chan struct{}, 1), often: rate.Sometimes{First: 10, Interval: 10 * time.Second}}
	c.ctx, c.cancel = context.WithCancel(context.WithValue(context.Background(), ownKey{}, true))
	c.Set(Settings{})
	f := instrument.With(o.Registerer)
	c.compared = f.Counters("promwarp_compare_queries_total", "Queries that were asked of promwarp and the upstream again, by whether the answers were the same, different, different though Prometheus's engine inside promwarp has promwarp's (upstream), or undecided.", "verdict")
	c.skipped = f.Counters("promwarp_compare_skipped_total", "Queries that were chosen to be compared and were not, by reason.", "reason")
	c.seconds = f.Counter("promwarp_compare_seconds_total", "Time that comparisons took, in seconds.")
	f.GaugeOf("promwarp_compare_running", "Queries that were chosen, and are compared or wait for that.", func() float64 { return float64(c.Pending()) })
	for _, v := range []string{same, different, upstream, undecided} {
		c.compared.WithLabelValues(v)
	}
	return c
}

// Verdicts in the metrics.
const same, different, upstream, undecided = "same", "different", "upstream", "undecided"

// Set changes the settings.
func (c *Canary) Set(s Settings) { c.settings.Store(&s) }

// Close ends what runs, and has nothing begin any more.
func (c *Canary) Close() {
	c.cancel()
	c.works.Wait()
}

// Pending is the number of queries that wait or are compared.
func (c *Canary) Pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pending
}

// ownKey is in the contexts of a canary's own requests.
type ownKey struct{}

// golden is 2^64 divided by the golden ratio. Its multiples are spread evenly whatever the period is
// in which queries come, as those of a dashboard do.
const golden = 0x9E3779B97F4A7C15

// chosen reports whether the next query is compared. It depends on the number of queries before.
func (c *Canary) chosen() bool {
	fraction := c.settings.Load().Fraction
	if fraction <= 0 {
		return false
	}
	at := c.asked.Add(1) * golden
	return fraction >= 1 || at < uint64(fraction*math.MaxUint64)
}

// Answered is told of a query that was evaluated, with the context of its request. One that
// Prometheus's engine evaluated alone is not compared.
func (c *Canary) Answered(ctx context.Context, q promql.Query) {
	ours, ok := q.(engine.Query)
	stmt, isQuery := q.Statement().(*parser.EvalStmt)
	if !ok || !isQuery || ctx.Value(ownKey{}) != nil || ours.Executors() == plan.OnPrometheus || ours.Executors() == "" || !c.chosen() {
		return
	}
	_, newest := promql.FindMinMaxTime(stmt)
	this := question{path: "/api/v1/query", settled: time.UnixMilli(newest).Add(settledAfter)}
	this.function, this.magnified = compare.Inexact(stmt.Expr)
	this.form = url.Values{"query": {q.String()}, "lookback_delta": {seconds(stmt.LookbackDelta)}}
	if stmt.Interval > 0 {
		this.path += "_range"
		this.form.Set("start", stamp(stmt.Start))
		this.form.Set("end", stamp(stmt.End))
		this.form.Set("step", seconds(stmt.Interval))
	} else {
		this.form.Set("time", stamp(stmt.Start))
	}
	switch {
	case len(q.String()) > longestQuery:
		c.skip("length", nil)
	case time.Until(this.settled) > longestWait:
		c.skip("unsettled", nil)
	case !c.add(this):
		c.skip("waiting", nil)
	}
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }

func stamp(t time.Time) string {
	return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', -1, 64)
}

// add has a question wait, if there is room.
func (c *Canary) add(q question) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) >= mostWaiting || c.ctx.Err() != nil {
		return false
	}
	at, _ := slices.BinarySearchFunc(c.waiting, q, func(a, b question) int { return cmp.Or(a.settled.Compare(b.settled), -1) })
	c.waiting = slices.Insert(c.waiting, at, q)
	c.pending++
	if !c.running {
		c.running = true
		c.works.Go(c.work)
	}
	select {
	case c.added <- struct{}{}:
	default:
	}
	return true
}

// work compares what waits, until nothing does.
func (c *Canary) work() {
	for {
		c.mu.Lock()
		c.pending = len(c.waiting)
		if len(c.waiting) == 0 || c.ctx.Err() != nil {
			c.waiting, c.pending, c.running = nil, 0, false
			c.mu.Unlock()
			return
		}
		first := c.waiting[0]
		wait := time.Until(first.settled)
		if wait <= 0 && c.o.Busy() {
			wait = lookEvery
		}
		if wait <= 0 {
			c.waiting = c.waiting[1:]
		}
		c.mu.Unlock()
		if wait <= 0 {
			c.compare(first)
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-c.added:
		case <-c.ctx.Done():
		}
		timer.Stop()
	}
}

// compare compares one query, and counts what came of it.
func (c *Canary) compare(q question) {
	s := c.settings.Load()
	ctx, end := context.WithTimeoutCause(c.ctx, s.Timeout, errTimeout)
	defer end()
	began := time.Now()
	defer func() { c.seconds.Add(time.Since(began).Seconds()) }()
	var verdict, detail string
	err := rescue.Do(func() (err error) {
		verdict, detail, err = c.verdict(ctx, q, s)
		return err
	})
	switch why := context.Cause(ctx); {
	case err == nil:
		c.compared.WithLabelValues(verdict).Inc()
		c.report(q, verdict, detail)
	case errors.Is(why, errTimeout):
		c.skip("timeout", nil)
	case why != nil:
		c.skip("closed", nil)
	default:
		c.skip(reasonOf(err), err)
	}
}

// verdict asks both sides.
func (c *Canary) verdict(ctx context.Context, q question, s *Settings) (verdict, detail string, err error) {
	a := &asking{question: q, lease: c.o.Memory.SpareLease(memory.Evaluation)}
	defer a.lease.Release()
	rounds := compare.Rounds{Prometheus: 1}
	if q.function != "" && s.Exact != plan.Bits {
		rounds.Tolerance = plan.Tolerance
	}
	promwarp, inside := a.side(c.o.Promwarp, "auto"), a.side(c.o.Promwarp, "prometheus")
	prometheus := inside
	if s.Upstream != nil {
		prometheus = a.side(s.Upstream, "")
	}
	row, err := compare.Measure(ctx, prometheus, promwarp, rounds)
	switch {
	case err != nil || a.err != nil:
		return "", "", cmp.Or(a.err, err)
	case row.Verdict == compare.Same:
		return same, "", nil
	case row.Verdict == compare.NotCompared:
		return "", "", errors.New(row.Detail)
	case row.Verdict == compare.Undecided || rounds.Tolerance > 0 && q.magnified:
		return undecided, row.Detail, nil
	case s.Upstream == nil:
		return different, row.Detail, nil
	}
	alike, err := compare.Measure(ctx, inside, promwarp, rounds)
	if err == nil && a.err == nil && alike.Verdict == compare.Same {
		return upstream, row.Detail, nil
	}
	return different, row.Detail, ctx.Err()
}

// longestText is the most bytes of a text that are logged.
const longestText = 2000

// report logs a difference: ten lines, and one each ten seconds from there on.
func (c *Canary) report(q question, verdict, detail string) {
	if verdict == same {
		return
	}
	fields := []any{"verdict", verdict, "difference", shortened(detail)}
	for _, name := range []string{"query", "time", "start", "end", "step"} {
		if v := q.form.Get(name); v != "" {
			fields = append(fields, name, shortened(v))
		}
	}
	c.often.Do(func() {
		switch verdict {
		case different:
			c.o.Logger.Error("an answer differs from Prometheus's; please report this", fields...)
		case upstream:
			c.o.Logger.Warn("an answer differs from the upstream's and is that of Prometheus's engine over the samples in the cache: the upstream has other samples, or is of another version", fields...)
		default:
			c.o.Logger.Info("an answer differs from Prometheus's, which may not be wrong", fields...)
		}
	})
}

func shortened(text string) string { return text[:min(len(text), longestText)] }

// skip counts a chosen query that is not compared. An error is logged.
func (c *Canary) skip(reason string, err error) {
	c.skipped.WithLabelValues(reason).Inc()
	if err != nil {
		c.often.Do(func() { c.o.Logger.Warn("a query could not be compared", "reason", reason, "err", err) })
	}
}
