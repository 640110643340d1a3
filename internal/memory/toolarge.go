package memory

import (
	"fmt"
	"hash/maphash"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	// largeFor is for how long a request is refused that needed more memory than there is: it may
	// match fewer series by then.
	largeFor = 5 * time.Minute
	// largeNear is how far from the range of that request another of the same length may begin.
	largeNear = time.Hour
	maxLarge  = 1 << 10 // requests that are known to be so
)

// TooLarge are requests that needed more memory than the process has. It is safe for concurrent use; a
// nil TooLarge knows none.
type TooLarge struct {
	Seed  maphash.Seed // of keys
	known *lru.Cache[uint64, tooLarge]
}

type tooLarge struct {
	err   *TooLargeError
	start time.Time // of its range
	found time.Time
}

// NewTooLarge returns a TooLarge that knows of no request yet.
func NewTooLarge() *TooLarge {
	known, _ := lru.New[uint64, tooLarge](maxLarge) // fails for no positive size
	return &TooLarge{maphash.MakeSeed(), known}
}

// Identity is a request: its key, 0 for none, and when the range begins that it is over.
type Identity func() (key uint64, start time.Time)

// Note says that a request needed more memory than there is, as err says.
func (l *TooLarge) Note(of Identity, err *TooLargeError) {
	if l == nil {
		return
	}
	if key, start := of(); key != 0 {
		l.known.Add(key, tooLarge{err, start, time.Now()})
	}
}

// Refuses is why a request is refused under the limit of a pool, before its samples are fetched; nil if
// it is not. Who it is is asked only where some are known.
func (l *TooLarge) Refuses(of Identity, p *Pool) error {
	if l == nil || l.known.Len() == 0 {
		return nil
	}
	key, start := of()
	known, ok := l.known.Get(key)
	left := time.Until(known.found.Add(largeFor))
	if !ok || left < 0 || known.err.Limit != p.Limit() || start.Sub(known.start).Abs() > largeNear {
		return nil
	}
	return fmt.Errorf("%w; so it was found a moment ago, and the request is not tried again before %s have passed", known.err, left.Round(time.Second))
}
