package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/promwarp/promwarp/bench/answer"
	"github.com/promwarp/promwarp/bench/report"
)

// load is a number of clients that ask at once, each a number of times or for a time.
type load struct {
	clients int
	each    int
	during  time.Duration
}

// load has clients ask a contender questions, each beginning with another one, and notes what their
// answers took and the peak of the server's memory.
func (r *rig) load(ctx context.Context, row *report.Row, c contender, qs []question, l load) error {
	name := c.names[0]
	r.shown.Contend(name)
	_ = c.server.ForgetPeak() // where the system can
	all := make([][]cost, l.clients)
	group, asking := errgroup.WithContext(ctx)
	before, begin := spent(c.server, c.behind), time.Now()
	for k := range l.clients {
		group.Go(func() error {
			for i := 0; i < l.each || time.Since(begin) < l.during; i++ {
				a, err := answer.Ask(asking, c.server.URL, c.asked(qs[(k+i)%len(qs)]), nil)
				if err == nil {
					err = a.Err()
				}
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				all[k] = append(all[k], cost{wall: a.Took, first: a.First, sent: int64(a.Sent)})
			}
			return nil
		})
	}
	err := group.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		row.Error = err.Error()
		return r.alive()
	}
	took, after := time.Since(begin), spent(c.server, c.behind)
	var costs []cost
	for _, some := range all {
		costs = append(costs, some...)
	}
	n := time.Duration(len(costs))
	for i := range costs {
		costs[i].cpu, costs[i].behind = (after.cpu-before.cpu)/n, (after.behind-before.behind)/n
	}
	cost := r.costOf(costs)
	cost.PerSecond = float64(n) / took.Seconds()
	row.Costs[name], row.Error = cost, ""
	r.peak(fmt.Sprintf("%s, %s", name, row.Name), c.server)
	r.say("%s, %s: %d answers, %.1f a second, median %.1f ms", row.Name, name, n, cost.PerSecond, cost.Median)
	return r.save()
}
