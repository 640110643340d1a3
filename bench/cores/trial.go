package main

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/promwarp/promwarp/bench/queries"
	"github.com/promwarp/promwarp/bench/report"
)

// ask asks all queries of all contenders, and writes the results as they come.
func (b *bench) ask(ctx context.Context, qs []queries.Query, cs []contender) error {
	for i, q := range qs {
		took, err := b.trial(ctx, q, cs, i)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("query %s: %w", q.Name, err)
		}
		for _, p := range b.running {
			if err := p.Alive(); err != nil {
				return fmt.Errorf("query %s: %w", q.Name, err)
			}
		}
		var line strings.Builder
		for k, c := range cs {
			if len(took[k]) == 0 {
				continue
			}
			c.key.Query = q.Name
			m := measurement{key: c.key, Timing: report.NewTiming(took[k])}
			b.result.put(m)
			fmt.Fprintf(&line, ", %s %.1f ms", strings.TrimSpace(c.key.Peer+" "+c.key.Variant), m.Median)
		}
		b.say("%2d/%d %s%s", i+1, len(qs), q.Name, line.String())
		if err := b.write(); err != nil {
			return err
		}
	}
	return nil
}

// trial times a query: rounds in which all are asked, each first in turn. Before them everyone is
// asked once, and promwarp twice, since it keeps decoded what is asked for again. A Prometheus
// that is alone is asked once in all.
func (b *bench) trial(ctx context.Context, q queries.Query, cs []contender, number int) ([][]time.Duration, error) {
	form := b.form(q)
	b.result.Queries[q.Name] = described{Expr: q.Expr, Range: q.Range.String(), Step: q.Step.String(), Points: b.result.Queries[q.Name].Points}
	took := make([][]time.Duration, len(cs))
	bodies := make([][]byte, len(cs)) // of promwarp's answers
	var buf bytes.Buffer
	warm, rounds := cs, b.rounds
	if len(cs) == 1 {
		warm, rounds = nil, 1
	}
	for i, c := range warm {
		a, err := c.ask(ctx, c.url, form, &buf)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.key.Peer, err)
		}
		if c.key.Peer != promwarp {
			continue
		}
		if a, err = c.ask(ctx, c.url, form, &buf); err != nil {
			return nil, fmt.Errorf("%s: %w", c.key.Peer, err)
		}
		r, err := b.judge(ctx, q, c.jitter, c.source, a)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.key.Peer, err)
		}
		d := b.result.Queries[q.Name]
		d.Points = r.Points
		b.result.Queries[q.Name] = d
		bodies[i] = bytes.Clone(a.Body)
	}
	runtime.GC() // of what was compared, not in a round
	begin := time.Now()
	for round := range rounds {
		for k := range cs {
			i := (k + round + number) % len(cs)
			before := b.worked(cs[i])
			a, err := cs[i].ask(ctx, cs[i].url, form, &buf)
			if err == nil {
				err = a.Err()
			}
			if b.work {
				a.Took = b.worked(cs[i]) - before
			}
			if err != nil && cs[i].key.Peer == victoriaMetrics && ctx.Err() == nil {
				b.say("VictoriaMetrics: %s", err)
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", cs[i].key.Peer, err)
			}
			if bodies[i] != nil && !bytes.Equal(bodies[i], a.Body) {
				b.result.Wrong = append(b.result.Wrong, q.Name+": promwarp answered differently when it was asked again")
			}
			took[i] = append(took[i], a.Took)
		}
		if time.Since(begin) > b.budget {
			break
		}
	}
	return took, nil
}

// worked is how long the server of c has run on cores, with -work.
func (b *bench) worked(c contender) (d time.Duration) {
	for _, p := range b.running {
		if b.work && p.URL == c.url {
			d, _ = p.CPU() // what has ended answers nothing
		}
	}
	return d
}

// peaks notes how much memory promwarp and VictoriaMetrics have had at most.
func (b *bench) peaks(cs []contender) {
	for _, c := range cs {
		for _, p := range b.running {
			if p.URL == c.url && c.key.Peer != prometheus {
				b.result.Peaks[fmt.Sprintf("%s on %d", c.key.Peer, c.key.Cores)] = p.PeakRSS()
			}
		}
	}
}
