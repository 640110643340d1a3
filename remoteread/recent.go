package remoteread

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/prometheus/prompb"
)

// recent holds what was found out about selectors, for a while: it depends on the
// selector, on the samples and on the store, all of which may change.
type recent[T any] struct {
	mu  sync.Mutex
	all map[string]remembered[T]
}

type remembered[T any] struct {
	what  T
	until time.Time
}

const (
	rememberFor   = 10 * time.Minute
	maxRemembered = 4096 // selectors
)

// get returns what is known of the selector with the given key, and whether anything is.
func (m *recent[T]) get(key string) (T, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.all[key]
	return r.what, time.Now().Before(r.until)
}

func (m *recent[T]) add(key string, what T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil || len(m.all) >= maxRemembered {
		m.all = map[string]remembered[T]{}
	}
	m.all[key] = remembered[T]{what, time.Now().Add(rememberFor)}
}

// selectorKey is the same for equal matchers alone.
func selectorKey(ms []*prompb.LabelMatcher) string {
	var b []byte
	for _, m := range ms {
		b = strconv.AppendQuote(strconv.AppendQuote(append(b, byte(m.Type)), m.Name), m.Value)
	}
	return string(b)
}
