package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// probe asks a small query once every 100 ms from an address of its own, whether the one before
// was answered or not, so that a time in which the server says nothing counts in full.
type probe struct {
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu     sync.Mutex
	took   []time.Duration
	failed map[string]int
}

// probeQuery is what the probe asks.
const probeQuery = "/api/v1/query?query=sum(up)"

// probeFrom begins to ask.
func probeFrom(ctx context.Context, base, from string) (*probe, error) {
	s, err := newServer(base, from)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	p := &probe{stop: stop, failed: map[string]int{}}
	p.wg.Go(func() {
		defer s.client.CloseIdleConnections()
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			p.wg.Go(func() { p.once(ctx, s) })
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	})
	return p, nil
}

func (p *probe) once(ctx context.Context, s *server) {
	limited, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	start := time.Now()
	a := s.get(limited, probeQuery)
	took := time.Since(start)
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil && a.err != nil {
		// The end cut it off: it counts if it waited already for long.
		if took > time.Second {
			p.took = append(p.took, took)
		}
		return
	}
	p.took = append(p.took, took)
	if a.err != nil {
		p.failed[unwrapped(a.err).Error()]++
	} else if a.code != http.StatusOK {
		p.failed[fmt.Sprintf("%d %.60s", a.code, a.reason())]++
	}
}

// probed are the figures of a probe.
type probed struct {
	asked         int
	p50, p99, max time.Duration
	failed        map[string]int
}

// end ends the probe.
func (p *probe) end() probed {
	p.stop()
	p.wg.Wait()
	return probed{len(p.took), percentile(p.took, 0.5), percentile(p.took, 0.99), percentile(p.took, 1), p.failed}
}

func (p probed) String() string {
	s := fmt.Sprintf("%d asked, median %s, p99 %s, slowest %s", p.asked, short(p.p50), short(p.p99), short(p.max))
	if len(p.failed) > 0 {
		s += ", failed: " + list(p.failed)
	}
	return s
}

// judge says whether the small queries were answered, 99 of 100 within limit.
func (p probed) judge(v *verdict, limit time.Duration) {
	if p.p99 >= limit {
		v.breaks("small queries: p99 %s", short(p.p99))
	}
	failed := 0
	for _, n := range p.failed {
		failed += n
	}
	if failed*100 > p.asked {
		v.breaks("small queries: %d of %d failed: %s", failed, p.asked, list(p.failed))
	}
}
