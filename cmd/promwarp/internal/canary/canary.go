// Package canary asks a part of all queries again, of promwarp and of the Prometheus that it reads
// from, and counts where the answers differ.
//
// Canary.Answered is told of each query that was evaluated. A chosen one waits until its newest samples
// are settled, and no request waits. Then both sides are asked by compare.Measure, as promwarp compare
// does. Start reading at Canary.compare. Invariant: one comparison runs at a time, in bounds of time and
// bytes, and takes memory that nobody else needs. Nobody waits for it.
package canary

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"golang.org/x/time/rate"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/inside"
	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/engine/compare"
	"github.com/promwarp/promwarp/internal/instrument"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
)

const (
	settledAfter  = 10 * time.Minute       // the age of samples from which both sides have the same: cache.recheck and more
	mostWaiting   = 1000                   // queries that wait, the one that is compared included
	longestWait   = time.Hour              // of one query
	lookEvery     = 100 * time.Millisecond // whether requests wait
	longestQuery  = 10_000                 // bytes
	longestAnswer = 32 << 20               // bytes
	longestText   = 2000                   // bytes of a text that are logged
)

// Verdicts in the metrics.
const same, different, upstream, undecided = "same", "different", "upstream", "undecided"

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
	Options
	settings atomic.Pointer[Settings]
	often    rate.Sometimes

	compared, skipped *prometheus.CounterVec

	ctx     context.Context
	cancel  context.CancelFunc
	turn    chan struct{} // full while one is compared
	pending atomic.Int64  // queries that wait or are compared
	closing sync.RWMutex  // against queries that come while Close waits for works
	works   sync.WaitGroup
}

// New returns a canary that compares nothing until Set.
func New(o Options) *Canary {
	c := &Canary{Options: o, turn: make(chan struct{}, 1), often: rate.Sometimes{First: 10, Interval: 10 * time.Second}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.Set(Settings{})
	f := instrument.With(o.Registerer)
	c.compared = f.Counters("promwarp_compare_queries_total", "Queries that were asked of promwarp and the upstream again, by whether the answers were the same, different, different though Prometheus's engine inside promwarp has promwarp's (upstream), or undecided.", "verdict")
	c.skipped = f.Counters("promwarp_compare_skipped_total", "Queries that were chosen to be compared and were not, by reason.", "reason")
	f.GaugeOf("promwarp_compare_running", "Queries that were chosen, and are compared or wait for that.", func() float64 { return float64(c.Pending()) })
	for _, v := range []string{same, different, upstream, undecided} {
		c.compared.WithLabelValues(v)
	}
	return c
}

// Set changes the settings.
func (c *Canary) Set(s Settings) { c.settings.Store(&s) }

// Close ends what runs, and has nothing begin any more.
func (c *Canary) Close() {
	c.closing.Lock()
	c.cancel()
	c.closing.Unlock()
	c.works.Wait()
}

// Pending is the number of queries that wait or are compared.
func (c *Canary) Pending() int { return int(c.pending.Load()) }

// Answered is told of a query that was evaluated, and of the address that it was asked from. One that
// Prometheus's engine evaluated alone is not compared, nor are those from inside, as the canary's own.
func (c *Canary) Answered(client string, q promql.Query) {
	ours, ok := q.(engine.Query)
	stmt, isQuery := q.Statement().(*parser.EvalStmt)
	if !ok || !isQuery || client == inside.Client || ours.Executors() == plan.OnPrometheus || ours.Executors() == "" || rand.Float64() >= c.settings.Load().Fraction {
		return
	}
	_, newest := promql.FindMinMaxTime(stmt)
	wait := time.Until(time.UnixMilli(newest).Add(settledAfter))
	path, form := "/api/v1/query", url.Values{"query": {q.String()}, "lookback_delta": {inSeconds(stmt.LookbackDelta)}}
	if stmt.Interval > 0 {
		path += "_range"
		form.Set("start", inSeconds(time.Duration(stmt.Start.UnixNano())))
		form.Set("end", inSeconds(time.Duration(stmt.End.UnixNano())))
		form.Set("step", inSeconds(stmt.Interval))
	} else {
		form.Set("time", inSeconds(time.Duration(stmt.Start.UnixNano())))
	}
	this := question{path: path, form: form}
	this.function, this.magnified = compare.Inexact(stmt.Expr)
	c.closing.RLock()
	defer c.closing.RUnlock()
	switch {
	case len(q.String()) > longestQuery:
		c.skip("length", nil)
	case wait > longestWait:
		c.skip("unsettled", nil)
	case c.pending.Load() >= mostWaiting || c.ctx.Err() != nil:
		c.skip("waiting", nil)
	default:
		c.pending.Add(1)
		c.works.Go(func() {
			defer c.pending.Add(-1)
			c.sleep(wait)
			c.turn <- struct{}{}
			defer func() { <-c.turn }()
			for c.ctx.Err() == nil && c.Busy() {
				c.sleep(lookEvery)
			}
			if c.ctx.Err() == nil {
				c.compare(this)
			}
		})
	}
}

func inSeconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }

// question is a query that is compared, and what compare.Inexact says of it.
type question struct {
	path      string
	form      url.Values
	function  string
	magnified bool
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
		if verdict != same {
			c.report(q, verdict, detail)
		}
	case ctx.Err() != nil:
		c.skip("timeout", nil)
	case errors.Is(err, inside.ErrBusy) || memory.Exhausted(err):
		c.skip("busy", nil)
	default:
		c.skip("failed", err)
	}
}

// verdict asks both sides.
func (c *Canary) verdict(ctx context.Context, q question, s *Settings) (verdict, detail string, err error) {
	lease := c.Memory.SpareLease(memory.Evaluation)
	defer lease.Release()
	var failure error // why an answer says nothing about promwarp
	side := func(h http.Handler, executor string) compare.Side {
		return func(ctx context.Context) (*compare.Answer, error) {
			form := maps.Clone(q.form)
			if executor != "" {
				form.Set("executor", executor)
			}
			status, text, err := inside.Ask(ctx, h, q.path, form, longestAnswer)
			if err == nil {
				err = lease.Grow(ctx, 3*int64(len(text))) // which it takes while it is compared
			}
			if err != nil {
				failure = err
				return nil, err
			}
			return compare.Parse(status, text)
		}
	}
	rounds := compare.Rounds{Prometheus: 1}
	if q.function != "" && s.Exact != plan.Bits {
		rounds.Tolerance = plan.Tolerance
	}
	promwarp, engine := side(c.Promwarp, "auto"), side(c.Promwarp, "prometheus")
	prometheus := engine
	if s.Upstream != nil {
		prometheus = side(s.Upstream, "")
	}
	row, err := compare.Measure(ctx, prometheus, promwarp, rounds)
	switch {
	case failure != nil || err != nil:
		return "", "", cmp.Or(failure, err)
	case row.Verdict == compare.Same:
		return same, "", nil
	case row.Verdict == compare.NotCompared:
		return "", "", errors.New(row.Detail)
	case row.Verdict == compare.Undecided || rounds.Tolerance > 0 && q.magnified:
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

// report logs a difference: ten lines, and one each ten seconds from there on.
func (c *Canary) report(q question, verdict, detail string) {
	fields := []any{"verdict", verdict, "difference", detail[:min(len(detail), longestText)]}
	for _, name := range []string{"query", "time", "start", "end", "step"} {
		if v := q.form.Get(name); v != "" {
			fields = append(fields, name, v[:min(len(v), longestText)])
		}
	}
	c.often.Do(func() { c.Logger.Log(c.ctx, said[verdict].level, said[verdict].text, fields...) })
}

// skip counts a chosen query that is not compared. An error is logged.
func (c *Canary) skip(reason string, err error) {
	c.skipped.WithLabelValues(reason).Inc()
	if err != nil {
		c.often.Do(func() { c.Logger.Warn("a query could not be compared", "reason", reason, "err", err) })
	}
}
