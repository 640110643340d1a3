package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// large are what the clients of a crowd ask.
var large = []asks{
	{`sum by (job) (rate({__name__=~".+_total"}[5m]))`, "5m", ""},
	{`avg by (instance) (avg_over_time({__name__=~"node_.+"}[10m]))`, "5m", ""},
	{`topk(5, sum by (instance) (rate({__name__=~".+_total"}[15m])))`, "5m", ""},
	{`count by (__name__) ({__name__=~".+"})`, "5m", ""},
}

// crowd is what many clients got.
type crowd struct {
	times
	lasted            time.Duration
	slowestRefusal    time.Duration
	withoutRetryAfter int // of those refused with 503
}

// ask has clients ask one query after the other, over ranges that nobody asked for before. They come
// from ten addresses.
func (r *run) ask(ctx context.Context, clients int, lasts time.Duration) *crowd {
	ctx, cancel := context.WithTimeout(ctx, lasts)
	defer cancel()
	c, begun := &crowd{}, time.Now()
	from := make([]*client, 10)
	for i := range from {
		from[i] = newClient(r.URL, fmt.Sprintf("127.0.0.%d", 10+i))
	}
	together(ctx, clients, clients, func(ctx context.Context, i int) {
		for ctx.Err() == nil {
			earlier := -rand.N(20 * time.Minute)
			h := hours{r.hours.start.Add(earlier), r.hours.end.Add(earlier)}
			a := from[i%len(from)].query(context.WithoutCancel(ctx), h, large[rand.IntN(len(large))])
			c.add(a)
			if a.ok() {
				continue
			}
			c.mu.Lock()
			c.slowestRefusal = max(c.slowestRefusal, a.began)
			// A query whose own time is up is told so with 503, too, and need not come again.
			if a.code == http.StatusServiceUnavailable && !a.retryAfter && !strings.Contains(a.text, `"errorType":"timeout"`) {
				c.withoutRetryAfter++
			}
			c.mu.Unlock()
			time.Sleep(100 * time.Millisecond)
		}
	})
	c.lasted = time.Since(begun)
	return c
}

func (c *crowd) perSecond() float64 {
	return float64(len(c.Took)-c.failures()) / c.lasted.Seconds()
}

// crowds holds 500 clients at once against 20.
func (r *run) crowds(ctx context.Context, lasts time.Duration) {
	r.measured(ctx, "500 clients", func(ctx context.Context, w *row) {
		r.ask(ctx, 20, lasts/4) // what is asked for again is retained after this
		few, many := r.ask(ctx, 20, lasts), r.ask(ctx, 500, lasts)
		w.figures = append(w.figures, fmt.Sprintf("20 clients: %.1f/s; 500 clients: %.1f/s, %s", few.perSecond(), many.perSecond(), &many.times))
		w.bar(many.slowestRefusal <= 10*time.Second+patient(slack), "a client was refused after %s; --query.max-queue-time is 10s", short(many.slowestRefusal))
		w.bar(many.withoutRetryAfter == 0, "%d were refused with 503 without Retry-After", many.withoutRetryAfter)
		w.bar(many.Failed["no answer"] == 0, "%d got no answer", many.Failed["no answer"])
		w.bar(many.perSecond()*float64(*patience) >= 0.9*few.perSecond(), "fewer were served than of 20 clients")
	})
}
