//go:build unix

package engine

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/selection"
)

// heavy is a selection of series with samples every 15 s.
func heavy(t testing.TB, series, samples int) *selection.Selection {
	b := selection.NewBuilder(0)
	var bytes [][]byte
	for at := 0; at < samples; at += 120 {
		c := chunkenc.NewXORChunk()
		app, err := c.Appender()
		require.NoError(t, err)
		for k := at; k < at+120; k++ {
			app.Append(0, int64(k)*15_000, math.Sin(float64(k)))
		}
		bytes = append(bytes, c.Bytes())
	}
	for i := range series {
		b.Series(labels.FromStrings("__name__", "m_total", "g", fmt.Sprint(i%7), "i", fmt.Sprintf("%06d", i)))
		for k, data := range bytes {
			require.NoError(t, b.Chunk(chunkenc.EncXOR, int64(k)*120*15_000, int64(k*120+119)*15_000, data))
		}
	}
	s, err := b.Finish()
	require.NoError(t, err)
	return s
}

// heavyQueries each keep an executor busy in another of its loops, over a number
// of series with a number of samples.
var heavyQueries = []struct {
	query           string
	series, samples int
	step            int64 // s
}{
	{"sum(rate(m_total[5m]))", 4_000, 240, 1},
	{"increase(m_total[12h])", 16, 12_000, 15},
	{"quantile_over_time(0.9, m_total[2h])", 100, 6_000, 15},
	{"mad_over_time(m_total[6h])", 100, 2_400, 15},
	{"avg_over_time(m_total[48h])", 200, 24_000, 15},
	{"avg_over_time((m_total / 0)[6h:15s])", 1, 24_000, 15}, // infinite: window by window
	{"topk by (g) (100, m_total)", 4_000, 1200, 5},
	{"m_total * on (i) group_left () m_total", 2_000, 1200, 5},
	{`count_values("v", m_total)`, 200, 1200, 5},
	{"ts_of_max_over_time(m_total[24h])", 1, 12_000, 15},
	{"quantile by (g) (0.9, m_total)", 4_000, 1200, 5},
	{"sum by (i) (m_total)", 4_000, 1200, 5},
	{"max(max_over_time(rate(m_total[5m])[1h:15s]))", 4_000, 960, 15},
	{"sum(-m_total * 2 > 0)", 4_000, 1200, 5},
	{"abs(sum by (i) (m_total)) * 2 + 1", 4_000, 1200, 5},
	{"stddev by (g) (m_total)", 5_000, 240, 1},
}

// within is how much time of the processor a query may take to end after it was
// cancelled. On a machine that has nothing else to do, it ends at least as soon.
const within = 100 * time.Millisecond

// TestCancelSoon: a query cancelled in the middle of its evaluation ends at once,
// and nothing goes on behind it.
func TestCancelSoon(t *testing.T) {
	for _, c := range heavyQueries {
		t.Run(c.query, func(t *testing.T) {
			sel := heavy(t, c.series, c.samples)
			q := queryable{select_: func() (*selection.Selection, error) { return sel, nil }}
			opts := plainOpts()
			opts.MaxSamples = 1 << 30
			e := New(Options{Prometheus: opts, Workers: 2})
			cancelled, slowest := 0, time.Duration(0)
			for after := time.Millisecond; after < time.Second; after *= 2 {
				took, err := within, error(nil)
				for range 3 { // a busy machine may hold up one attempt
					if took, err = cancelAfter(t, e, q, c.query, int64(c.samples)*15, c.step, after); took < within {
						break
					}
				}
				if err == nil {
					break
				}
				require.ErrorAs(t, err, new(promql.ErrQueryCanceled))
				require.Less(t, took, within, "cancelled after %s", after)
				slowest = max(slowest, took)
				cancelled++
			}
			t.Logf("cancelled %d times; took %s at most to end", cancelled, slowest)
			require.Greater(t, cancelled, 2, "the query is not heavy")
		})
	}
}

// cancelAfter runs a query, cancels it, and says how much time of the processor
// went by then.
func cancelAfter(t *testing.T, e *Engine, q queryable, qs string, end, step int64, after time.Duration) (time.Duration, error) {
	query, err := e.NewRangeQuery(t.Context(), q, nil, qs, time.Unix(0, 0), time.Unix(end, 0), time.Duration(step)*time.Second)
	require.NoError(t, err)
	defer query.Close()
	runtime.GC()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	at := make(chan time.Duration, 1)
	timer := time.AfterFunc(after, func() { at <- processorTime(t); cancel() })
	res := query.Exec(ctx)
	ended := processorTime(t)
	require.Empty(t, running("cpuexec."), "goroutines that go on")
	if timer.Stop() || res.Err == nil {
		return 0, res.Err
	}
	return ended - <-at, res.Err
}

// processorTime is the time that this process has kept processors busy, without what the kernel did for it: to find
// memory takes it long where files have all.
func processorTime(t testing.TB) time.Duration {
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano())
}

// TestTimeoutSoon: a timeout ends a query as soon, with Prometheus's error.
func TestTimeoutSoon(t *testing.T) {
	const timeout = 50 * time.Millisecond
	sel := heavy(t, 400, 6_000)
	q := queryable{select_: func() (*selection.Selection, error) { return sel, nil }}
	opts := plainOpts()
	opts.Timeout = timeout
	e := New(Options{Prometheus: opts, Workers: 2})
	opts.Reg = nil
	ask := func(e promql.QueryEngine) error {
		query, err := e.NewRangeQuery(t.Context(), q, nil, "quantile_over_time(0.9, m_total[2h])", time.Unix(0, 0), time.Unix(90_000, 0), 5*time.Second)
		require.NoError(t, err)
		defer query.Close()
		return query.Exec(t.Context()).Err
	}
	took, err := time.Hour, error(nil)
	for range 3 { // a busy machine may hold up one attempt
		began := processorTime(t)
		err = ask(e)
		if took = processorTime(t) - began; took < 2*timeout+within {
			break
		}
	}
	require.Less(t, took, 2*timeout+within)
	require.ErrorAs(t, err, new(promql.ErrQueryTimeout))
	require.Equal(t, ask(promql.NewEngine(opts)), err)
	require.Empty(t, running("cpuexec."), "goroutines that go on")
}

// TestSampleLimitSoon: a query over the sample limit fails before all is read. The
// last of its series cannot be: its chunk is corrupt.
func TestSampleLimitSoon(t *testing.T) {
	good := heavy(t, 5_000, 120)
	b := selection.NewBuilder(0)
	b.Series(labels.FromStrings("__name__", "m_total", "i", "last"))
	require.NoError(t, b.Chunk(chunkenc.EncXOR, 1000, 900_000, []byte{0, 50, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}))
	bad, err := b.Finish()
	require.NoError(t, err)
	sel, err := selection.Join(context.Background(), good, bad)
	require.NoError(t, err)
	q := queryable{select_: func() (*selection.Selection, error) { return sel, nil }}
	opts := plainOpts()
	opts.MaxSamples = 2_000
	e := New(Options{Prometheus: opts, Workers: 2})
	opts.Reg = nil
	for _, qs := range []string{
		"m_total", "rate(m_total[5m])", "sum(m_total)", "abs(m_total) * 2", "quantile(0.9, m_total)", "max_over_time(m_total[10m:1m])", "sum by (i) (avg_over_time(m_total[5m]))",
	} {
		err := ranged(t, e, t.Context(), q, qs).Err
		require.ErrorAs(t, err, new(promql.ErrTooManySamples), qs)
		require.Equal(t, ranged(t, promql.NewEngine(opts), t.Context(), q, qs).Err, err, qs)
	}
}

// Subqueries of more steps than samples may be loaded are refused before Prometheus's engine goes through
// them.
func TestEndlessSubqueries(t *testing.T) {
	sel := heavy(t, 1, 120)
	q := queryable{select_: func() (*selection.Selection, error) { return sel, nil }}
	e := New(Options{Prometheus: plainOpts(), Workers: 2})
	begun := time.Now()
	for _, qs := range []string{
		"max_over_time(vector(1)[20d:1ms])", "max_over_time(m_total[30d:1ms])", "max_over_time(sum(max_over_time(m_total[20d:1ms]))[1h:1m])",
		"max_over_time(sum(max_over_time(m_total[290y:1ms]))[290y:1y])",
	} {
		for _, mode := range []Mode{Auto, Prometheus} {
			query, err := e.NewQuery(t.Context(), Request{Storage: q, Query: qs, Mode: mode})
			require.NoError(t, err)
			require.ErrorAs(t, query.Exec(t.Context()).Err, new(promql.ErrTooManySamples), qs)
			query.Close()
		}
	}
	require.Less(t, time.Since(begun), 5*time.Second)
}

// What Prometheus's engine makes of nothing at each step of a subquery is charged before it is made, whatever
// stands beside it.
func TestStepsOfNothingTakeMemory(t *testing.T) {
	q := queryable{select_: func() (*selection.Selection, error) { return selection.NewBuilder(0).Finish() }}
	e := New(Options{Prometheus: plainOpts(), Workers: 2, MaxMemory: 16 << 20})
	for _, inner := range []string{
		"vector(1)", "m_total or vector(1)", "time() + m_total", "2 * m_total", "absent(m_total)",
		"scalar(m_total) * m_total", "max_over_time((m_total or vector(1))[1h:1m])",
	} {
		for interval, refused := range map[string]bool{"1m": false, "1ms": true} {
			query, err := e.NewInstantQuery(t.Context(), q, nil, "max_over_time(("+inner+")[1h:"+interval+"])", time.Unix(1800, 0))
			require.NoError(t, err)
			if err = query.Exec(t.Context()).Err; refused {
				assert.ErrorAs(t, err, new(*operator.MemoryError), inner)
			} else {
				require.NoError(t, err, inner)
			}
			query.Close()
		}
	}
}

// TestLongSubqueriesEnd: Prometheus's engine ends in the middle of a series of a subquery of millions of
// steps, with its own error.
func TestLongSubqueriesEnd(t *testing.T) {
	const bound = 3 * within // each takes more when it is not ended; memory of 200 MB grows within one step of it
	sel := heavy(t, 1, 240)
	q := queryable{select_: func() (*selection.Selection, error) { return sel, nil }}
	e := New(Options{Prometheus: plainOpts(), Workers: 2})
	for _, qs := range []string{
		"count_over_time(m_total[4h:1ms])", "max_over_time(rate(m_total[5m])[4h:1ms])", "max_over_time(quantile_over_time(0.9, m_total[30m])[1h:1ms])",
		"max_over_time(m_total[13h:1ms] offset 300d)", "sum(max_over_time(m_total[4h:1ms]))",
	} {
		t.Run(qs, func(t *testing.T) {
			for _, after := range []time.Duration{10 * time.Millisecond, 60 * time.Millisecond} {
				took, err := bound, error(nil)
				for range 10 { // a busy machine may hold up some attempts, and garbage of one the next
					runtime.GC()
					ctx, cancel := context.WithTimeout(t.Context(), after)
					query, refused := e.NewInstantQuery(ctx, q, nil, qs, time.Unix(3600, 0))
					require.NoError(t, refused)
					at := make(chan time.Duration, 1)
					timer := time.AfterFunc(after, func() { at <- processorTime(t) })
					err = query.Exec(ctx).Err
					took = processorTime(t)
					if timer.Stop() {
						took = 0 // it ended as soon as the timer could tell
					} else {
						took -= <-at
					}
					query.Close()
					cancel()
					if took < bound {
						break
					}
				}
				require.ErrorAs(t, err, new(promql.ErrQueryTimeout))
				require.Less(t, took, bound, "given up after %s", after)
				t.Logf("%s after %s", took, after)
			}
		})
	}
}

// running lists the goroutines whose stacks have a function of so a name.
func running(name string) (out []string) {
	buf := make([]byte, 1<<20)
	for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(g, name) {
			out = append(out, g)
		}
	}
	return out
}
