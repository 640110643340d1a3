package engine

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/remoteread"
	"github.com/promwarp/promwarp/selection"
)

// piecemeal is an engine in front of a server whose pieces of ten minutes come late, in any order,
// and some at the second try. Each query finds an empty cache.
type piecemeal struct {
	*Engine
	client *remoteread.Client
	cache  *cache.Cache
	broken atomic.Int64 // pieces until one is refused for good; below 0 for none
	last   *query
}

func newPiecemeal(t *testing.T, e *Engine, st storage.Storage, r *rand.Rand) *piecemeal {
	p := &piecemeal{Engine: e}
	p.broken.Store(-1)
	h := readsOf(st)
	var mu sync.Mutex
	at := serving(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		late, luck := time.Duration(r.IntN(6))*time.Millisecond, r.IntN(12)
		mu.Unlock()
		time.Sleep(late)
		switch {
		case p.broken.Load() >= 0 && p.broken.Add(-1) < 0:
			http.Error(w, "refused", http.StatusBadRequest)
		case luck == 0:
			http.Error(w, "try again", http.StatusServiceUnavailable)
		default:
			h.ServeHTTP(w, req)
		}
	}))
	p.client = clientOf(t, config.RemoteReadConfig{URL: at, RemoteTimeout: model.Duration(time.Minute), ChunkedReadLimit: 1 << 26},
		remoteread.Options{Piece: 10 * time.Minute, Concurrency: 3, Retries: 9, MinBackoff: time.Millisecond})
	p.forget()
	return p
}

func (p *piecemeal) forget() {
	p.cache = cache.New(p.client, cache.Options{HostBytes: 1 << 28, Tile: 10 * time.Minute})
}

// NewRangeQuery implements promql.QueryEngine.
func (p *piecemeal) NewRangeQuery(ctx context.Context, _ storage.Queryable, opts promql.QueryOpts, qs string, start, end time.Time, step time.Duration) (promql.Query, error) {
	q, err := p.Engine.NewRangeQuery(ctx, selection.Storage{Source: p.cache}, opts, qs, start, end, step)
	p.last, _ = q.(*query)
	return q, err
}

// ahead is how many steps of the last query were evaluated ahead and used.
func (p *piecemeal) ahead() (steps int) {
	p.last.plan.Root.Walk(func(d *plan.Decision) {
		if d.Remembered != nil {
			steps += d.Remembered.Ahead
		}
	})
	return steps
}

// aheadQuery is a random query, most often one that may be evaluated ahead.
func aheadQuery(r *rand.Rand) string {
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	leaf := func() string {
		window := pick("rate", "increase", "max_over_time", "min_over_time", "last_over_time", "count_over_time", "changes", "resets", "delta", "irate", "avg_over_time")
		return fmt.Sprintf("%s(%s(%s[%s]%s))",
			pick("sum by (job) ", "sum", "max by (instance) ", "avg by (job) ", "count", "topk by (job) (2, ", "quantile by (job) (0.5, "), window,
			pick("reqs_total", "errs_total", "temp", "odd", `{job="j1"}`, `reqs_total{job=~"j[12]"}`), pick("30s", "45s", "1m"), pick("", "", "", " offset 2m"))
	}
	closed := func(s string) string {
		for open := 0; ; open = 0 {
			for _, c := range s {
				open += map[rune]int{'(': 1, ')': -1}[c]
			}
			if open <= 0 {
				return s
			}
			s += ")"
		}
	}
	switch r.IntN(6) {
	case 0:
		// absent goes by the order of matchers, which Prometheus's own storage changes and a server
		// that is asked over remote read leaves as it was.
		for {
			if qs := identicalQuery(r, 2); !strings.Contains(qs, "absent") {
				return qs
			}
		}
	case 1:
		return closed(leaf()) + pick(" + ", " / ", " > ") + closed(leaf())
	case 2:
		l := closed("sum by (job) (rate(reqs_total[1m]")
		return l + " / (" + l + " + " + closed(leaf()) + ")"
	}
	return closed(leaf())
}

// TestAhead: whatever comes when, answers are those of Prometheus's engine to the bit; where a piece
// is refused the query fails, and nothing wrong is left of it.
func TestAhead(t *testing.T) {
	n := fromEnv(t, "PROMWARP_AHEAD", 240) / 6
	for _, workers := range []int{1, 2, 7} {
		for _, remembered := range []int64{0, 1 << 20} {
			t.Run(fmt.Sprintf("workers=%d/results=%d", workers, remembered), func(t *testing.T) {
				t.Parallel()
				seed := rand.Uint64()
				t.Logf("seed %d", seed)
				r := rand.New(rand.NewPCG(seed, 0))
				st := randomStorage(t, r)
				c := newComparison(false, workers)
				opts := c.ours.opts
				opts.ResultsBytes = remembered
				opts.Prometheus.Reg = nil
				p := newPiecemeal(t, New(opts), st, rand.New(rand.NewPCG(seed, 1)))
				c.asked = p
				ahead, failed := 0, 0
				for range n {
					ask := question{query: aheadQuery(r), start: int64(r.IntN(600)) * 1000, step: int64(7+r.IntN(54)) * 1000, lookback: time.Minute}
					ask.end = ask.start + int64(1800+r.IntN(1200))*1000
					p.forget()
					if r.IntN(3) == 0 {
						p.broken.Store(r.Int64N(4))
						if q, err := ask.on(p, nil); err == nil {
							if res := q.Exec(t.Context()); res.Err != nil {
								failed++
							}
							q.Close()
						}
						p.broken.Store(-1)
					}
					require.NoError(t, c.compare(t, st, ask))
					ahead += p.ahead()
				}
				t.Logf("%d queries: %d steps evaluated ahead, %d refused", n, ahead, failed)
				require.Greater(t, ahead, 5*n)
				require.Positive(t, failed)
			})
		}
	}
}

// inParts is a storage of which a query gets a part early, and the whole once that was evaluated.
type inParts struct {
	querierOf
	part selection.Part
	wait func()
}

func (s inParts) Querier(int64, int64) (storage.Querier, error) { return s, nil }

func (s inParts) BeginChunks(asks []selection.Ask) (gets []selection.Get) {
	for _, a := range asks {
		gets = append(gets, func(ctx context.Context) (*selection.Selection, annotations.Annotations, error) {
			if a.Came != nil {
				a.Came(s.part)
			}
			s.wait()
			return s.SelectChunks(ctx, nil, a.Matchers...)
		})
	}
	return gets
}

// TestAheadOfOthers: what was evaluated over a part is used only where the whole has the very chunks
// of the part. Who asks for statistics or has wide windows gets none of it.
func TestAheadOfOthers(t *testing.T) {
	lines := func(value float64, jobs ...string) *selection.Selection {
		var all []stretch
		for _, job := range jobs {
			all = append(all, stretch{labels.FromStrings("__name__", "m_total", "job", job), 0, 600, func(ts int64) float64 { return value * float64(ts) }})
		}
		return settledLines(t, 600, 1, all...)
	}
	whole, sevenths := lines(1, "a", "b"), lines(1.0/7, "a", "b")
	broken := settledLines(t, 600, 1, stretch{labels.FromStrings("__name__", "m_total"), 0, 600, func(ts int64) float64 {
		return float64(ts) + float64(max(0, ts-300*minute))/7
	}})
	early := func(sel *selection.Selection) selection.Part {
		return selection.Part{Sel: sel.Slice(0, 180*minute-1), MaxT: 180*minute - 1}
	}
	for name, test := range map[string]struct {
		query string
		part  selection.Part
		of    *selection.Selection // nil for whole
		stats bool
		ahead int
	}{
		"the very chunks":                    {query: "sum(rate(m_total[5m]))", part: early(whole), ahead: 180 - 5},
		"means":                              {query: "sum(avg_over_time(m_total[12m]))", part: early(sevenths), of: sevenths, ahead: 180 - 12},
		"means of integers":                  {query: "sum(avg_over_time(m_total[13m]))", part: early(whole), ahead: 180 - 13},
		"means of fractions":                 {query: "sum(avg_over_time(m_total[13m]))", part: early(sevenths), of: sevenths},
		"means of fractions that come later": {query: "sum(avg_over_time(m_total[13m]))", part: early(broken), of: broken},
		"other chunks":                       {query: "sum(rate(m_total[5m]))", part: early(lines(2, "a", "b"))},
		"fewer series":                       {query: "sum(rate(m_total[5m]))", part: early(whole.Filter(func(l labels.Labels) bool { return l.Get("job") == "b" }))},
		"more series":                        {query: "sum(rate(m_total[5m]))", part: early(lines(1, "a", "b", "c"))},
		"no series":                          {query: "sum(rate(m_total[5m]))", part: early(selection.Empty())},
		"statistics":                         {query: "sum(rate(m_total[5m]))", part: early(whole), stats: true},
		"a wide window":                      {query: "sum(rate(m_total[1h]))", part: early(whole)},
		"no aggregation":                     {query: "rate(m_total[5m])", part: early(whole)},
		"in a subquery":                      {query: "max_over_time(sum(rate(m_total[5m]))[10m:1m])", part: early(whole)},
	} {
		t.Run(name, func(t *testing.T) {
			e := New(Options{Prometheus: plainOpts(), Workers: 2})
			var q *query
			of := cmp.Or(test.of, whole)
			st := inParts{querierOf{queryable{func() (*selection.Selection, error) { return of, nil }}}, test.part, func() {
				f := q.fetches
				require.Eventually(t, func() bool { return len(f.arrived) == 0 }, 10*time.Second, time.Millisecond)
			}}
			answer := func(st storage.Queryable) string {
				made, err := e.NewRangeQuery(t.Context(), st, promql.NewPrometheusQueryOpts(test.stats, 0), test.query, time.UnixMilli(0), time.UnixMilli(599*minute), time.Minute)
				require.NoError(t, err)
				q = made.(*query)
				defer q.Close()
				res := q.Exec(t.Context())
				s := q.Stats().Samples
				return summary(res, test.query) + fmt.Sprint(s.TotalSamples, s.SamplesRead)
			}
			want := answer(st.q)
			require.Equal(t, want, answer(st))
			require.Equal(t, test.ahead, (&piecemeal{last: q}).ahead())
		})
	}
}
