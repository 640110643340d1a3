package selection

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/storage"
)

// Request is what samples are read for. The zero value is told of nothing.
type Request struct {
	Stats    *Stats    // of what is read
	Progress *Progress // of the same, while it is read
	// Whole says that no source may be left out where it fails, since the answer cannot carry a
	// warning.
	Whole bool
}

// Source is what a Request's samples are read from.
type Source interface {
	// Open returns a reader for the times from mint to maxt (ms, both included).
	Open(r Request, mint, maxt int64) Reader
}

// Storage is a source for one request, as Prometheus's packages know it. Its queriers are Queriers.
type Storage struct {
	Source
	Request Request
}

// Querier implements storage.Queryable.
func (s Storage) Querier(mint, maxt int64) (storage.Querier, error) {
	return &SeriesQuerier{Reader: s.Open(s.Request, mint, maxt), Mint: mint, Maxt: maxt}, nil
}

// ChunkQuerier implements storage.ChunkQueryable. It returns the chunks that overlap mint to maxt.
func (s Storage) ChunkQuerier(mint, maxt int64) (storage.ChunkQuerier, error) {
	return &ChunkQuerier{Reader: s.Open(s.Request, mint, maxt), Mint: mint, Maxt: maxt}, nil
}

// For returns q for a request. What is no Source, and so knows of none, is returned as it is.
func For(q storage.SampleAndChunkQueryable, r Request) storage.SampleAndChunkQueryable {
	if s, ok := q.(Source); ok {
		return Storage{s, r}
	}
	return q
}

// Stats collects what was done to read for a request. Fields are added to, so one Stats serves
// several selectors.
type Stats struct {
	TilesHit      atomic.Int64 // old tiles answered from memory
	TilesSubsumed atomic.Int64 // old tiles answered from those of a wider selector
	TilesFetched  atomic.Int64 // old tiles that were not there
	TilesRead     atomic.Int64 // those of TilesHit that were read from disk
	Fetches       atomic.Int64 // of what was not there, the youngest stretch's included
	SharedFetches atomic.Int64 // fetches that another query had started already
	FetchedBytes  atomic.Int64 // encoded chunks and labels that Fetches brought, in bytes
	Samples       atomic.Int64 // about how many samples the selections had in the time asked for
	FetchNanos    atomic.Int64 // time spent waiting for fetches, own and shared, in ns

	mu        sync.Mutex
	exchanges []Exchange
	unlisted  int // further ones
	name      string
	upstreams []*Stats
	err       error
}

// Exchange is how one request of a fetch to its source went.
type Exchange struct {
	MinT, MaxT  int64 // what was asked for, in ms since the epoch, both included
	Sent, Ended time.Time
	FirstByte   time.Time // of the answer's body; zero if none came
	Bytes       int64     // of the answer's body, as it came
	Series      int       // of the answer; none if the request failed
	Samples     int64
	Outcome     string // ok, or how it failed
}

// mostExchanges is how many exchanges Stats lists.
const mostExchanges = 64

// Add adds an exchange that has ended. It may be called on nil.
func (s *Stats) Add(one Exchange) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.exchanges) == mostExchanges {
		s.unlisted++
		return
	}
	s.exchanges = append(s.exchanges, one)
}

// Exchanges returns the first exchanges that were started for the request and that have ended, in the
// order in which they did, and how many there were besides.
func (s *Stats) Exchanges() (all []Exchange, more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.exchanges), s.unlisted
}

// Of returns the statistics of each of several upstreams, which are a part of s.
func (s *Stats) Of(names []string) []*Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.upstreams == nil {
		for _, name := range names {
			s.upstreams = append(s.upstreams, &Stats{name: name})
		}
	}
	return s.upstreams
}

// Upstreams returns the statistics of all upstreams in the order they are listed in; none if there
// are not several. Where one is several replicas, it is followed by these.
func (s *Stats) Upstreams() (all []*Stats) {
	for _, u := range s.Of(nil) {
		all = append(append(all, u), u.Upstreams()...)
	}
	return all
}

// Name is the name of the upstream that s is of.
func (s *Stats) Name() string { return s.name }

// Fail notes why answers are without the upstream that s is of.
func (s *Stats) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// Err says why answers are without the upstream that s is of; nil if they are not.
func (s *Stats) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Stage is what a request is doing.
type Stage string

// The stages of a request that has its turn.
const (
	Fetching   Stage = "fetching" // it waits for samples
	Evaluating Stage = "evaluating"
	Writing    Stage = "writing" // its answer
)

// Progress is how far a request has come, for those who look at it meanwhile. What fetches,
// evaluates and answers tells it, and nothing depends on what it says. It is safe for concurrent
// use, and all methods that tell it something may be called on nil.
type Progress struct {
	fetches   atomic.Int64 // that it waits for
	arrived   atomic.Int64
	most      atomic.Int64 // that arrived ever was
	evaluated atomic.Int64
	ended     atomic.Bool
}

// Fetch says that the request waits for a fetch, until done is called.
func (r *Progress) Fetch() (done func()) {
	if r == nil {
		return func() {}
	}
	r.fetches.Add(1)
	return func() { r.fetches.Add(-1) }
}

// Arrive adds bytes that have arrived; fewer than none take back what is thrown away.
func (r *Progress) Arrive(bytes int64) {
	if r == nil {
		return
	}
	now := r.arrived.Add(bytes)
	for most := r.most.Load(); now > most && !r.most.CompareAndSwap(most, now); most = r.most.Load() {
	}
}

// Evaluate adds samples of a series whose windows were evaluated.
func (r *Progress) Evaluate(samples int) {
	if r != nil {
		r.evaluated.Add(int64(samples))
	}
}

// End says that all is evaluated.
func (r *Progress) End() {
	if r != nil {
		r.ended.Store(true)
	}
}

// Stage is what the request is doing.
func (r *Progress) Stage() Stage {
	switch {
	case r.ended.Load():
		return Writing
	case r.fetches.Load() > 0:
		return Fetching
	}
	return Evaluating
}

// Arrived is the number of bytes of chunks and labels that have arrived.
func (r *Progress) Arrived() int64 { return r.arrived.Load() }

// MostArrived is the most that Arrived ever was: what a fetch brought that failed is among it.
func (r *Progress) MostArrived() int64 { return r.most.Load() }

// Evaluated is the number of samples whose windows executors have evaluated on cores.
func (r *Progress) Evaluated() int64 { return r.evaluated.Load() }
