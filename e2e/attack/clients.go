package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// served is what a crowd of clients got.
type served struct {
	clients           int
	took              time.Duration
	answered          int
	longest           time.Duration // of any request
	refused           map[string]int
	longestToRefuse   time.Duration
	withoutRetryAfter int // of those refused with 503
}

func (s served) perSecond() float64 { return float64(s.answered) / s.took.Seconds() }

func (s served) String() string {
	text := fmt.Sprintf("%d clients: %.1f/s, slowest %s", s.clients, s.perSecond(), short(s.longest))
	if len(s.refused) > 0 {
		text += fmt.Sprintf(", refused %s (slowest %s)", list(s.refused), short(s.longestToRefuse))
	}
	return text
}

// crowdQueries are what the clients of a crowd ask, each its own.
var crowdQueries = []string{
	`sum by (job) (rate({__name__=~".+_total"}[5m]))`,
	`avg by (instance) (avg_over_time({__name__=~"node_.+"}[10m]))`,
	`topk(5, sum by (instance) (rate({__name__=~".+_total"}[15m])))`,
	`count by (__name__) ({__name__=~".+"})`,
}

// crowd has clients ask one query after the other, as fast as they are answered. They come from
// some addresses, as clients do.
func crowd(ctx context.Context, e *env, clients int, lasts time.Duration) (served, error) {
	var from []*server
	for i := range 10 {
		s, err := newServer(e.target.url, fmt.Sprintf("127.0.0.%d", 10+i))
		if err != nil {
			return served{}, err
		}
		defer s.client.CloseIdleConnections()
		from = append(from, s)
	}
	end := time.Now().Add(lasts)
	var step atomic.Int64
	start := time.Now()
	parts := together(ctx, clients, clients, func(ctx context.Context, i int) served {
		part := served{refused: map[string]int{}}
		for time.Now().Before(end) && ctx.Err() == nil {
			n := step.Add(1)
			// A range that nobody asked for before: nothing is remembered of it.
			one := e.at(time.Duration(n%977) * time.Second)
			a := from[i%len(from)].post(ctx, "/api/v1/query_range", one.over(crowdQueries[n%int64(len(crowdQueries))], 5*time.Minute))
			part.add(a)
			if a.code == http.StatusServiceUnavailable {
				// As a client that heeds Retry-After, if not as patient.
				time.Sleep(100 * time.Millisecond)
			}
		}
		return part
	})
	all := served{clients: clients, took: time.Since(start), refused: map[string]int{}}
	for _, p := range parts {
		all.answered += p.answered
		all.withoutRetryAfter += p.withoutRetryAfter
		all.longest = max(all.longest, p.longest)
		all.longestToRefuse = max(all.longestToRefuse, p.longestToRefuse)
		for k, n := range p.refused {
			all.refused[k] += n
		}
	}
	return all, nil
}

func (s *served) add(a answer) {
	s.longest = max(s.longest, first(a))
	switch {
	case a.ok():
		s.answered++
	default:
		s.refused[outcome(a)]++
		s.longestToRefuse = max(s.longestToRefuse, first(a))
		// A query whose own time is up is told so with 503, too, and need not come again.
		timedOut := strings.Contains(a.head, `"errorType":"timeout"`)
		if a.code == http.StatusServiceUnavailable && a.retryAfter == "" && !timedOut {
			s.withoutRetryAfter++
		}
	}
}

// bars are what a crowd is held to.
type bars struct {
	queue    time.Duration // that nobody waits longer than
	known    bool          // whether there is a queue
	slack    time.Duration
	patience int // how many times as few may be served
}

// judgeCrowd compares a crowd of 500 with one of 20.
func judgeCrowd(few, many served, b bars) (v verdict) {
	v.figures = fmt.Sprintf("%s; %s", few, many)
	if !b.known {
		v.breaks("the server has no --query.max-queue-time")
	} else if many.longestToRefuse > b.queue+b.slack {
		v.breaks("a client was refused after %s; --query.max-queue-time is %s", short(many.longestToRefuse), b.queue)
	}
	if many.withoutRetryAfter > 0 {
		v.breaks("%d were refused with 503 without Retry-After", many.withoutRetryAfter)
	}
	if many.refused["no answer"] > 0 {
		v.breaks("%d got no answer", many.refused["no answer"])
	}
	if few.answered == 0 || many.perSecond()*float64(b.patience) < 0.9*few.perSecond() {
		v.breaks("served %.1f/s with %d clients, %.1f/s with %d", many.perSecond(), many.clients, few.perSecond(), few.clients)
	}
	return v
}

// crowds are the attack of 500 clients.
func crowds(ctx context.Context, e *env, lasts time.Duration) verdict {
	if _, err := crowd(ctx, e, 20, lasts/4); err != nil { // what is asked for again is kept after this
		return verdict{broken: []string{err.Error()}}
	}
	few, err := crowd(ctx, e, 20, lasts)
	if err != nil {
		return verdict{broken: []string{err.Error()}}
	}
	many, err := crowd(ctx, e, e.count(500), lasts)
	if err != nil {
		return verdict{broken: []string{err.Error()}}
	}
	queue, known := e.flag("query.max-queue-time", 0)
	return judgeCrowd(few, many, bars{queue, known, e.slack, e.patience})
}
