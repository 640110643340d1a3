// Package active lists the requests that are being evaluated, or wait for their turn, and cancels
// those that an operator names.
//
// Watch is around the doors that evaluate; it gives a request its number, the statistics of what
// it fetches, and a context that Cancel ends. A request is in the list from when its form was read
// until it is answered.
//
// Start with List.Watch.
package active

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/cache/fanout"
	"github.com/promwarp/promwarp/internal/progress"
)

// List is the requests under way. The zero value is empty. It is safe for concurrent use.
type List struct {
	mu      sync.Mutex
	last    uint64
	running map[uint64]*request
}

// request is one that is under way.
type request struct {
	id       uint64
	query    string
	door     string
	executor string
	since    time.Time
	running  atomic.Bool // it has its turn
	stats    *Stats
	cancel   context.CancelFunc
}

// Stats are what the caches do for a request.
type Stats struct {
	Cache     cache.QueryStats
	Upstreams fanout.QueryStats // where there are several
	progress  progress.Request
}

type key struct{}

// Watch has h answer, and lists the request meanwhile. The request's form must have been read.
func (l *List) Watch(door string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		q := &request{query: textOf(r.Form), door: door, executor: cmp.Or(r.Form.Get("executor"), "auto"), since: time.Now(), stats: &Stats{}, cancel: cancel}
		ctx = progress.With(ctx, &q.stats.progress)
		ctx = fanout.WithStats(cache.WithStats(context.WithValue(ctx, key{}, q), &q.stats.Cache), &q.stats.Upstreams)
		l.add(q)
		defer l.remove(q)
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}

// longestText is the most bytes of a query that are listed.
const longestText = 2000

// textOf is what a form asks for: PromQL, or a resample request as the form that it is.
func textOf(form url.Values) string {
	text := form.Get("query")
	if text == "" {
		text = form.Encode()
	}
	if len(text) > longestText {
		text = text[:longestText] + "…"
	}
	return text
}

func (l *List) add(q *request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running == nil {
		l.running = map[uint64]*request{}
	}
	l.last++
	q.id = l.last
	l.running[q.id] = q
}

func (l *List) remove(q *request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.running, q.id)
}

// Begun has h answer, and notes that the request no longer waits for its turn.
func Begun(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if q, _ := r.Context().Value(key{}).(*request); q != nil {
			q.running.Store(true)
		}
		h.ServeHTTP(w, r)
	})
}

// StatsOf are the statistics of the request that has ctx, or of none.
func StatsOf(ctx context.Context) *Stats {
	if q, _ := ctx.Value(key{}).(*request); q != nil {
		return q.stats
	}
	return &Stats{}
}

// Describe says which request has ctx: its number, its door, and what it asks for. It is 0 for none.
func Describe(ctx context.Context) (id uint64, door, query string) {
	if q, _ := ctx.Value(key{}).(*request); q != nil {
		return q.id, q.door, q.query
	}
	return 0, "", ""
}

// Request is what is shown of a request.
type Request struct {
	ID       uint64    `json:"id"`
	Query    string    `json:"query"`
	Door     string    `json:"door"`
	Executor string    `json:"executor"` // that it asks for
	Since    time.Time `json:"since"`
	Seconds  float64   `json:"seconds"` // since then
	Waiting  bool      `json:"waiting"` // for its turn
	// Stage is waiting, for its turn, or that of a request which has it.
	Stage progress.Stage `json:"stage"`
	// Samples that were selected, about, tiles and bytes so far, of all upstreams.
	Samples      int64 `json:"samples"`
	TilesKept    int64 `json:"tiles_kept"`
	TilesFetched int64 `json:"tiles_fetched"`
	FetchedBytes int64 `json:"fetched_bytes"` // those of fetches under way are among them
	// SamplesEvaluated is how many samples, and points of subqueries, window functions have been
	// evaluated over on cores; one that is read by several functions counts for each.
	SamplesEvaluated int64 `json:"samples_evaluated"`
}

// waiting is the stage of a request that has no turn yet.
const waiting progress.Stage = "waiting"

// Requests are those under way, the oldest first.
func (l *List) Requests() []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Request, 0, len(l.running))
	for _, q := range l.running {
		out = append(out, q.show())
	}
	slices.SortFunc(out, func(a, b Request) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// show describes q as the list of queries under way shows it.
func (q *request) show() Request {
	s := Request{
		ID: q.id, Query: q.query, Door: q.door, Executor: q.executor, Since: q.since.UTC(), Seconds: time.Since(q.since).Seconds(),
		Waiting: !q.running.Load(), Stage: q.stats.progress.Stage(), SamplesEvaluated: q.stats.progress.Evaluated(),
	}
	if s.Waiting {
		s.Stage = waiting
	}
	s.add(&q.stats.Cache)
	for _, u := range q.stats.Upstreams.Upstreams() {
		s.add(&u.Cache)
	}
	s.FetchedBytes = max(s.FetchedBytes, q.stats.progress.Arrived())
	return s
}

// bytesOfSample is about what a sample takes in memory, compressed.
const bytesOfSample = 2

// Mostly reports whether the request that has ctx holds most of the memory that requests under way
// and others hold: seven eighths, by what they have fetched and selected, and the least bytes.
func (l *List) Mostly(ctx context.Context, least, other int64) bool {
	mine, _ := ctx.Value(key{}).(*request)
	own, all := int64(0), other
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, q := range l.running {
		s := q.show()
		n := max(q.stats.progress.MostArrived(), s.FetchedBytes, bytesOfSample*s.Samples)
		if all += n; q == mine {
			own = n
		}
	}
	return own >= max(least, all-all/8)
}

// add adds what a cache has done.
func (s *Request) add(c *cache.QueryStats) {
	s.Samples += c.Samples.Load()
	s.TilesKept += c.TilesHit.Load() + c.TilesSubsumed.Load()
	s.TilesFetched += c.TilesFetched.Load()
	s.FetchedBytes += c.FetchedBytes.Load()
}

// Cancel ends a request's context, and reports whether there is such a request.
func (l *List) Cancel(id uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.running[id]
	if q != nil {
		q.cancel()
	}
	return q != nil
}
