package engine

import (
	"fmt"
	"sync"
)

// surprises are selectors whose newest samples were not of the kind of those that are kept:
// a metric that becomes one of native histograms is one until its histograms are kept. Such
// a selector's samples are waited for before its query is evaluated.
type surprises struct {
	mu        sync.Mutex
	selectors map[string]bool
}

// mostSurprises is the number of selectors at which all are forgotten.
const mostSurprises = 1000

func (s *surprises) add(selector string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.selectors == nil || len(s.selectors) >= mostSurprises {
		s.selectors = map[string]bool{}
	}
	s.selectors[selector] = true
}

func (s *surprises) has(selector fmt.Stringer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.selectors) > 0 && s.selectors[selector.String()]
}
