// Package prefetch fetches what has not been asked for yet, within a budget that protects the
// source.
//
// A Prefetcher asks for what is wanted again and again, and fetches it, the most wanted first.
// After a fetch that failed it leaves the source alone for a minute. Start with Prefetcher.Start.
package prefetch

import (
	"context"
	"sync"
	"time"

	"github.com/promwarp/promwarp/internal/rescue"
)

// Budget bounds fetching ahead. It comes on top of what queries fetch.
type Budget struct {
	Requests    float64 // a second; 0 means no prefetching
	Bytes       int64   // of chunks and labels, a second; 0 means no bound
	Concurrency int     // requests at one time; 0 means one
}

// afterFailure is for how long nothing is prefetched after a request that failed.
const afterFailure = time.Minute

// Prefetcher fetches what is wanted of kind E.
type Prefetcher[E any] struct {
	// Wanted lists what there is to fetch, the most wanted first.
	Wanted func() []E
	// Fetch fetches one of these, and returns how many bytes came.
	Fetch func(ctx context.Context, one E) (bytes int64, err error)
	Budget

	cancel context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex
	next time.Time // when the budget has room for the next request
}

// Start has p look for something to do every pause, until Close.
func (p *Prefetcher[E]) Start(pause time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel, p.done = cancel, make(chan struct{})
	go func() {
		defer close(p.done)
		for next := pause; sleep(ctx, next); {
			if next = pause; !p.Round(ctx) {
				next = max(pause, afterFailure)
			}
		}
	}()
}

// Close ends what p is at. p may be nil.
func (p *Prefetcher[E]) Close() {
	if p != nil {
		p.cancel()
		<-p.done
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Round fetches what there is to be until a request fails or ctx ends. It reports whether neither
// happened.
func (p *Prefetcher[E]) Round(ctx context.Context) bool {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	p.fetchAll(ctx, stop)
	return ctx.Err() == nil
}

// fetchAll fetches what there is to be until ctx ends, and calls failed when a request does.
func (p *Prefetcher[E]) fetchAll(ctx context.Context, failed func()) {
	var all sync.WaitGroup
	defer all.Wait()
	slots := make(chan struct{}, max(p.Concurrency, 1))
	for _, one := range p.Wanted() {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		if !p.wait(ctx) {
			return
		}
		all.Go(func() {
			defer func() { <-slots }()
			if err := rescue.Do(func() error { return p.fetch(ctx, one) }); err != nil {
				failed()
			}
		})
	}
}

func (p *Prefetcher[E]) fetch(ctx context.Context, one E) error {
	bytes, err := p.Fetch(ctx, one)
	if err == nil && p.Bytes > 0 {
		p.mu.Lock()
		p.spend(time.Duration(float64(bytes) / float64(p.Bytes) * float64(time.Second)))
		p.mu.Unlock()
	}
	return err
}

// wait waits until the budget has room for a request.
func (p *Prefetcher[E]) wait(ctx context.Context) bool {
	for {
		p.mu.Lock()
		left := time.Until(p.next)
		if left <= 0 {
			p.spend(time.Duration(float64(time.Second) / p.Requests))
			p.mu.Unlock()
			return true
		}
		p.mu.Unlock()
		if !sleep(ctx, left) {
			return false
		}
	}
}

// spend makes the next request wait for longer. The mutex must be held.
func (p *Prefetcher[E]) spend(d time.Duration) {
	if now := time.Now(); p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(d)
}
