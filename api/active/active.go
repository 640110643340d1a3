// Package active lists the requests that are being evaluated, or wait for their turn, and cancels
// those that an operator names.
//
// Begin lists a request, with statistics of what is fetched for it, and gives it a context that
// Cancel ends. A request is in the list from when its form was read until it is answered.
//
// Start with List.Begin.
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

	"github.com/promwarp/promwarp/selection"
)

// List is the requests under way. The zero value is empty. It is safe for concurrent use.
type List struct {
	mu      sync.Mutex
	last    uint64
	running map[uint64]*Entry
}

// Entry is a request that is under way.
type Entry struct {
	ID    uint64
	Query string // what it asks for, as text
	Door  string
	Stats selection.Stats // of what the caches do for it

	list     *List
	executor string
	since    time.Time
	running  atomic.Bool // it has its turn
	cancel   context.CancelFunc
	progress selection.Progress
}

// Begin lists a request whose form was read until End. The request that it returns has the context
// that Cancel ends.
func (l *List) Begin(r *http.Request, door string) (*http.Request, *Entry) {
	ctx, cancel := context.WithCancel(r.Context())
	e := &Entry{Query: textOf(r.Form), Door: door, list: l, executor: cmp.Or(r.Form.Get("executor"), "auto"), since: time.Now(), cancel: cancel}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running == nil {
		l.running = map[uint64]*Entry{}
	}
	l.last++
	e.ID = l.last
	l.running[e.ID] = e
	return r.WithContext(ctx), e
}

// Reads is what samples are read for the request with.
func (e *Entry) Reads() selection.Request {
	return selection.Request{Stats: &e.Stats, Progress: &e.progress}
}

// Begun says that the request no longer waits for its turn.
func (e *Entry) Begun() { e.running.Store(true) }

// Evaluated says that what is left is to write the answer.
func (e *Entry) Evaluated() { e.progress.End() }

// End says that the request is answered.
func (e *Entry) End() {
	e.cancel()
	e.list.mu.Lock()
	defer e.list.mu.Unlock()
	delete(e.list.running, e.ID)
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
	Stage selection.Stage `json:"stage"`
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
const waiting selection.Stage = "waiting"

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

// show describes e as the list of queries under way shows it.
func (e *Entry) show() Request {
	s := Request{
		ID: e.ID, Query: e.Query, Door: e.Door, Executor: e.executor, Since: e.since.UTC(), Seconds: time.Since(e.since).Seconds(),
		Waiting: !e.running.Load(), Stage: e.progress.Stage(), SamplesEvaluated: e.progress.Evaluated(),
	}
	if s.Waiting {
		s.Stage = waiting
	}
	s.add(&e.Stats)
	for _, u := range e.Stats.Upstreams() {
		s.add(u)
	}
	s.FetchedBytes = max(s.FetchedBytes, e.progress.Arrived())
	return s
}

// bytesOfSample is about what a sample takes in memory, compressed.
const bytesOfSample = 2

// Mostly reports whether a request holds most of the memory that requests under way
// and others hold: seven eighths, by what they have fetched and selected, and the least bytes.
func (e *Entry) Mostly(least, other int64) bool {
	own, all := int64(0), other
	e.list.mu.Lock()
	defer e.list.mu.Unlock()
	for _, q := range e.list.running {
		s := q.show()
		n := max(q.progress.MostArrived(), s.FetchedBytes, bytesOfSample*s.Samples)
		if all += n; q == e {
			own = n
		}
	}
	return own >= max(least, all-all/8)
}

// add adds what a cache has done.
func (s *Request) add(c *selection.Stats) {
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
