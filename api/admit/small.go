package admit

import (
	"context"
	"hash/maphash"
	"net/http"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/promwarp/promwarp/api/params"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/queue"
)

const (
	// smallSamples and smallTime are what a query reads and takes at most to count as small: a good
	// ten milliseconds of a core, and what waiting for the upstream and for others' work adds.
	smallSamples = 1 << 20
	smallTime    = time.Second
	// stillSmallTime is what one may take that was small before: it may have come at a bad time.
	stillSmallTime = 10 * smallTime
	// maxSmall is how many small queries are known; those that were asked longest ago are forgotten.
	maxSmall = 1 << 14
)

// Small are queries that were small when they were asked last, as those of alerts and of most
// panels are. They wait in a queue of their own and not behind large ones, which may be of the same
// client: to a dashboard all its readers are one address.
type Small struct {
	queue *queue.Queue
	seed  maphash.Seed
	known *lru.Cache[uint64, struct{}]
	large *memory.TooLarge
}

// NewSmall returns a Small that knows of no query yet.
func NewSmall(q *queue.Queue) *Small {
	known, _ := lru.New[uint64, struct{}](maxSmall) // fails for no positive size
	return &Small{q, maphash.MakeSeed(), known, memory.NewTooLarge()}
}

// keyOf is the same for requests for one query over ranges of one length, which begin at start, and
// for resample requests with the same form, whose start is zero; ok is false for other requests.
func (s *Small) keyOf(r *http.Request) (key uint64, start time.Time, ok bool) {
	switch {
	case s == nil || len(r.Form) == 0:
		return 0, time.Time{}, false
	case r.Form.Get("query") == "":
		return maphash.String(s.seed, r.Form.Encode()), time.Time{}, true
	}
	e, err := params.Parse(r, time.Now())
	if err != nil {
		return 0, time.Time{}, false
	}
	var h maphash.Hash
	h.SetSeed(s.seed)
	for _, text := range []string{e.Query, e.End.Sub(e.Start).String(), e.Step.String(), e.Lookback.String(), r.Form.Get("executor"), r.Form.Get("exact")} {
		_, _ = h.WriteString(text)
		_ = h.WriteByte(0)
	}
	return h.Sum64(), e.Start, true
}

// is reports whether the query with a key is small.
func (s *Small) is(key uint64) bool { return s.known.Contains(key) }

// note notes what the query with a key took.
func (s *Small) note(key uint64, samples int64, took time.Duration) {
	switch {
	case samples > smallSamples || took > stillSmallTime:
		s.known.Remove(key)
	case took <= smallTime:
		s.known.Add(key, struct{}{})
	}
}

// NeededTooMuch says that the request's query needed more memory than there is, as err says: the
// same query is refused for a while before its samples are fetched.
func NeededTooMuch(ctx context.Context, err *memory.TooLargeError) {
	if a, _ := ctx.Value(slotKey{}).(*admitted); a != nil && a.small != nil {
		a.small.large.Note(a.key, a.start, err)
	}
}

// TooLarge are the requests that needed more memory than there is; nil of nil.
func (s *Small) TooLarge() *memory.TooLarge {
	if s == nil {
		return nil
	}
	return s.large
}

// Evaluated says that the request's query read so many samples, and gives its slot back.
func Evaluated(ctx context.Context, samples int64) {
	if a, _ := ctx.Value(slotKey{}).(*admitted); a != nil && a.small != nil {
		a.small.note(a.key, samples, time.Since(a.since))
	}
	EvaluationEnded(ctx)
}
