package admit

import (
	"context"
	"fmt"
	"time"

	"github.com/promwarp/promwarp/internal/memory"
)

const (
	// largeFor is for how long a query is refused that needed more memory than there is: it may
	// match fewer series by then.
	largeFor = 5 * time.Minute
	// largeNear is how far from the range of that query another of the same length may begin.
	largeNear = time.Hour
	maxLarge  = 1 << 10 // queries that are known to be so
)

// large is a query that needed more memory than the process has.
type large struct {
	err   *memory.TooLargeError
	start time.Time // of its range
	found time.Time
}

// NeededTooMuch says that the request's query needed more memory than there is, as err says: the
// same query is refused for a while before its samples are fetched.
func NeededTooMuch(ctx context.Context, err *memory.TooLargeError) {
	if a, _ := ctx.Value(slotKey{}).(*admitted); a != nil && a.small != nil {
		a.small.large.Add(a.key, large{err, a.start, time.Now()})
	}
}

// tooLarge is why the query with a key, over a range that begins at start, is refused under a limit
// of memory in bytes; nil if it is not.
func (s *Small) tooLarge(key uint64, start time.Time, limit int64) error {
	l, ok := s.large.Get(key)
	left := time.Until(l.found.Add(largeFor))
	if !ok || left < 0 || l.err.Limit != limit || start.Sub(l.start).Abs() > largeNear {
		return nil
	}
	return fmt.Errorf("%w; so it was found a moment ago, and the query is not tried again before %s have passed", l.err, left.Round(time.Second))
}
