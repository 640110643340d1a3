package cache

import (
	"sync"

	"github.com/promwarp/promwarp/selection"
)

// mostRequests is how many requests of a query are listed.
const mostRequests = 64

// requests lists what was asked of the upstream for a query.
type requests struct {
	mu   sync.Mutex
	all  []selection.Request
	more int // further ones
}

func (r *requests) add(one selection.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) == mostRequests {
		r.more++
		return
	}
	r.all = append(r.all, one)
}

// Requests returns the requests to the upstream that the query started and that have ended, in the
// order in which they did, and how many there were besides.
func (s *QueryStats) Requests() (all []selection.Request, more int) {
	s.requests.mu.Lock()
	defer s.requests.mu.Unlock()
	return s.requests.all, s.requests.more
}
