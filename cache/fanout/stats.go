package fanout

import (
	"context"
	"sync"

	"github.com/promwarp/promwarp/cache"
)

// QueryStats collects what the upstreams' caches did for one query.
type QueryStats struct {
	mu  sync.Mutex
	ups []*UpstreamStats
}

// UpstreamStats is what one upstream's cache did for a query.
type UpstreamStats struct {
	Name  string
	Cache cache.QueryStats

	mu  sync.Mutex
	err error
}

// Err says why the answer is without the upstream; nil if it is not.
func (u *UpstreamStats) Err() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.err
}

func (u *UpstreamStats) failed(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.err = err
}

// Upstreams returns the stats of all upstreams in the order they are listed in;
// none if no fanout was asked.
func (s *QueryStats) Upstreams() []*UpstreamStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ups
}

// of returns the stats of ups.
func (s *QueryStats) of(ups []Upstream) []*UpstreamStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ups == nil {
		for _, u := range ups {
			s.ups = append(s.ups, &UpstreamStats{Name: u.Name})
		}
	}
	return s.ups
}

type statsKey struct{}

// WithStats returns a context whose queries add to s.
func WithStats(ctx context.Context, s *QueryStats) context.Context {
	return context.WithValue(ctx, statsKey{}, s)
}

func statsFrom(ctx context.Context) *QueryStats {
	s, _ := ctx.Value(statsKey{}).(*QueryStats)
	return s
}
