package admit

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/promwarp/promwarp/api/promapi"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/queue"
	"github.com/promwarp/promwarp/selection"
)

// Turn is a request that is under way. By its key requests that are too large are known again: it is the
// same for requests for one query over ranges of one length, which begin at start, and for resample
// requests with the same form, whose start is zero.
type Turn struct {
	ID    uint64
	Query string // what it asks for, as text
	Door  string
	// What samples are read for it with: the statistics of the caches, and how far it has come.
	Stats    selection.Stats
	Progress selection.Progress
	Waited   time.Duration // for its turn, once it has that

	gate     *Gate
	executor string
	since    time.Time
	admitted atomic.Bool // it has its turn
	cancel   context.CancelFunc
	slot     *queue.Slot
	request  *http.Request
	large    *memory.TooLarge
}

// list lists a request whose form was read.
func (t *Turn) list(form url.Values) {
	t.Query, t.executor, t.since = form.Get("query"), cmp.Or(form.Get("executor"), "auto"), time.Now()
	if t.Query == "" { // a resample request
		t.Query = form.Encode()
	}
	if len(t.Query) > longestText {
		t.Query = t.Query[:longestText] + "…"
	}
	g := t.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.turns == nil {
		g.turns = map[uint64]*Turn{}
	}
	g.last++
	t.ID = g.last
	g.turns[t.ID] = t
}

// End ends what is under way: the request has been answered.
func (t *Turn) End() {
	t.cancel()
	t.slot.Leave()
	t.gate.mu.Lock()
	defer t.gate.mu.Unlock()
	delete(t.gate.turns, t.ID)
}

// identify returns the key of a request, which is 0 if nothing is told by it.
func (t *Turn) identify() (key uint64, start time.Time) {
	r := t.request
	switch {
	case len(r.Form) == 0:
		return 0, time.Time{}
	case r.Form.Get("query") == "":
		return maphash.String(t.large.Seed, r.Form.Encode()), time.Time{}
	}
	e, err := promapi.Parse(r, time.Now())
	if err != nil {
		return 0, time.Time{}
	}
	var h maphash.Hash
	h.SetSeed(t.large.Seed)
	for _, text := range []string{e.Query, e.End.Sub(e.Start).String(), e.Step.String(), e.Lookback.String(), r.Form.Get("executor"), r.Form.Get("exact")} {
		_, _ = h.WriteString(text)
		_ = h.WriteByte(0)
	}
	return h.Sum64(), e.Start
}

// Evaluated gives the slot of the request back: what is left is to write. err is what the evaluation
// failed for; of a *memory.TooLargeError the same query is refused for a while before its samples are
// fetched.
func (t *Turn) Evaluated(err error) {
	t.Progress.End()
	if large, ok := errors.AsType[*memory.TooLargeError](err); ok {
		t.large.Note(t.identify, large)
	}
	t.slot.Leave()
}

// longestText is the most bytes of a query that are listed.
const longestText = 2000

// Request is a turn in the list of requests under way, as JSON.
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
func (g *Gate) Requests() []Request {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]Request, 0, len(g.turns))
	for _, q := range g.turns {
		out = append(out, q.show())
	}
	slices.SortFunc(out, func(a, b Request) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// show describes t as the list of queries under way shows it.
func (t *Turn) show() Request {
	s := Request{
		ID: t.ID, Query: t.Query, Door: t.Door, Executor: t.executor, Since: t.since.UTC(), Seconds: time.Since(t.since).Seconds(),
		Waiting: !t.admitted.Load(), Stage: t.Progress.Stage(), SamplesEvaluated: t.Progress.Evaluated(),
	}
	if s.Waiting {
		s.Stage = waiting
	}
	s.add(&t.Stats)
	for _, u := range t.Stats.Upstreams() {
		s.add(u)
	}
	s.FetchedBytes = max(s.FetchedBytes, t.Progress.Arrived())
	return s
}

// bytesOfSample is about what a sample takes in memory, compressed.
const bytesOfSample = 2

// Mostly reports whether a request holds most of the memory that requests under way
// and others hold: seven eighths, by what they have fetched and selected, and the least bytes.
func (t *Turn) Mostly(least, other int64) bool {
	own, all := int64(0), other
	t.gate.mu.Lock()
	defer t.gate.mu.Unlock()
	for _, q := range t.gate.turns {
		s := q.show()
		n := max(q.Progress.MostArrived(), s.FetchedBytes, bytesOfSample*s.Samples)
		if all += n; q == t {
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
func (g *Gate) Cancel(id uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.turns[id]
	if q != nil {
		q.cancel()
	}
	return q != nil
}
