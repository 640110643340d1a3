package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// row is a line of the table.
type row struct {
	name string
	verdict
	took  time.Duration
	peak  resident
	small probed
}

// campaign is a run of attacks on one server.
type campaign struct {
	*env
	pid   int   // of the target; 0 if unknown
	limit int64 // of its resident memory, in bytes; 0 if unknown
	from  string
	print func(row)
	rows  []row
	// lenient holds crashes, panics and data races against the server alone.
	lenient bool
	revive  func() error // starts the target again if it has ended; nil if it cannot be
}

// measured runs what, watches the target meanwhile, and adds a row. bars says whether the bars
// that hold of everything are held against it.
func (c *campaign) measured(ctx context.Context, name string, bars bool, what func(ctx context.Context) verdict) {
	if ctx.Err() != nil {
		return
	}
	before, err := c.target.metrics(ctx)
	r := row{name: name}
	if err != nil {
		r.breaks("before it the server gave no metrics: %v", unwrapped(err))
	}
	memory := sample(ctx, c.pid)
	small, err := probeFrom(ctx, c.target.url, c.from)
	if err != nil {
		r.breaks("%v", err)
		c.add(r)
		return
	}
	begun := time.Now()
	v := what(ctx)
	r.took = time.Since(begun)
	var unknown error
	r.small, unknown = small.end()
	var gone error
	r.peak, gone = memory.end()
	if ctx.Err() != nil {
		return // what was interrupted says nothing
	}
	r.skipped, r.figures = v.skipped, v.figures
	if c.lenient {
		bars = false
		r.figures += noted(v.broken)
	} else {
		r.broken = append(r.broken, v.broken...)
	}
	if unknown != nil {
		r.breaks("%v", unknown)
	}
	if gone != nil {
		r.breaks("the process is gone: %v", gone)
	}
	if c.limit > 0 && !within(r.peak.all, c.limit) {
		r.breaks("resident memory %s, limit %s", megabytes(r.peak.all), megabytes(c.limit))
	}
	if bars {
		r.small.judge(&r.verdict, time.Duration(c.patience)*time.Second)
	}
	c.survived(ctx, &r.verdict, before)
	if c.revive != nil {
		if err := c.revive(); err != nil {
			r.breaks("it does not start again: %v", err)
		}
	}
	c.add(r)
}

// noted is what did not hold, as a figure.
func noted(broken []string) string {
	if len(broken) == 0 {
		return ""
	}
	return " (not held against it: " + strings.Join(broken, "; ") + ")"
}

// judgeLog looks for what a program prints when it fails.
func judgeLog(log string) (v verdict) {
	for _, bad := range []string{"WARNING: DATA RACE", "fatal error: ", "panic: ", "goroutine stack exceeds"} {
		if n := strings.Count(log, bad); n > 0 {
			at := strings.Index(log, bad)
			v.breaks("%d × %q, first:\n%.1500s", n, bad, log[at:])
		}
	}
	v.figures = fmt.Sprintf("%d lines", strings.Count(log, "\n"))
	return v
}

func (c *campaign) add(r row) {
	c.rows = append(c.rows, r)
	c.print(r)
}

// survived says whether the server is the process that it was, without panics since, and
// answers.
func (c *campaign) survived(ctx context.Context, v *verdict, before map[string]float64) {
	if a := healthy(ctx, c.target, time.Duration(c.patience)*5*time.Second); !a.ok() {
		v.breaks("afterwards /-/healthy: %s", a)
	}
	after, err := c.target.metrics(ctx)
	if err != nil {
		v.breaks("afterwards no metrics: %v", unwrapped(err))
		return
	}
	if before == nil {
		return
	}
	if after["process_start_time_seconds"] != before["process_start_time_seconds"] {
		v.breaks("the server was started anew")
	}
	if n := after["promwarp_http_panics_total"] - before["promwarp_http_panics_total"]; n > 0 {
		v.breaks("%.0f panics", n)
	}
}

// singly makes each attack by itself.
func (c *campaign) singly(ctx context.Context, list []attack) {
	for _, a := range list {
		if ctx.Err() == nil {
			c.measured(ctx, a.name, true, func(ctx context.Context) verdict { return a.run(ctx, c.env) })
		}
	}
}

// atOnce makes all attacks at the same time, again and again, for so long. What is held against
// the server is what holds of everything, and its queries' deadlines.
func (c *campaign) atOnce(ctx context.Context, list []attack, lasts time.Duration) {
	each := make([]env, len(list)) // an attack's, with counts of its own
	c.measured(ctx, fmt.Sprintf("everything at once, %s", lasts), true, func(ctx context.Context) (v verdict) {
		ctx, cancel := context.WithTimeout(ctx, lasts)
		defer cancel()
		var wg sync.WaitGroup
		var mu sync.Mutex
		rounds := 0
		for i, a := range list {
			at := &each[i]
			*at = *c.env
			if a.apart {
				at.target = at.target.from(fmt.Sprintf("127.0.1.%d", i+1))
			}
			at.mixed, at.counts = true, &counts{}
			wg.Go(func() {
				for ctx.Err() == nil {
					one := a.run(ctx, at)
					mu.Lock()
					rounds++
					if ctx.Err() == nil {
						for _, b := range one.broken {
							v.breaks("%s: %s", a.name, b)
						}
					}
					mu.Unlock()
					select {
					case <-ctx.Done():
					case <-time.After(100 * time.Millisecond):
					}
				}
			})
		}
		wg.Wait()
		var asked, late, failed, latest int64
		var kinds []string
		for i := range each {
			at := &each[i]
			asked, late, failed, latest = asked+at.asked.Load(), late+at.late.Load(), failed+at.failed.Load(), max(latest, at.latest.Load())
			if n := at.late.Load(); n > 0 {
				kinds = append(kinds, fmt.Sprintf("%s %d of %d by %s at most", list[i].name, n, at.asked.Load(), short(time.Duration(at.latest.Load()))))
			}
		}
		if late > 0 {
			v.breaks("%d of %d queries were late, the last by %s: %s", late, asked, short(time.Duration(latest)), strings.Join(kinds, "; "))
		}
		v.figures = fmt.Sprintf("%d attacks of %d kinds, %d queries, %d late, %d without an answer", rounds, len(list), asked, late, failed)
		return v
	})
}

// state is what a server holds when nothing is asked of it.
type state struct {
	memory     resident
	kept       int64
	goroutines float64
}

func (c *campaign) state(ctx context.Context) (s state) {
	if c.pid != 0 {
		s.memory, _ = readResident(c.pid)
	}
	s.kept, _ = kept(ctx, c.target)
	s.goroutines = goroutines(ctx, c.target)
	return s
}

// recovered waits for at most a minute until the memory is what it was and a tenth, besides what
// the caches keep since, and the goroutines too.
func (c *campaign) recovered(ctx context.Context, before state) {
	if ctx.Err() != nil {
		return
	}
	begun := time.Now()
	var v verdict
	for {
		v = judgeState(before, c.state(ctx))
		if len(v.broken) == 0 || time.Since(begun) > time.Minute || ctx.Err() != nil {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	if c.lenient {
		v.figures += noted(v.broken)
		v.broken = nil
	}
	c.add(row{name: "a minute afterwards", verdict: v, took: time.Since(begun)})
}

// judgeState compares what a server holds with what it held before.
func judgeState(before, after state) (v verdict) {
	grown := max(after.kept-before.kept, 0)
	v.figures = fmt.Sprintf("memory %s before, %s after, of it %s more kept in caches; goroutines %.0f before, %.0f after",
		megabytes(before.memory.anonymous), megabytes(after.memory.anonymous), megabytes(grown), before.goroutines, after.goroutines)
	if !within(after.memory.anonymous-grown, before.memory.anonymous) {
		v.breaks("memory is not back: %s before, %s after, %s more in caches", megabytes(before.memory.anonymous), megabytes(after.memory.anonymous), megabytes(grown))
	}
	if after.goroutines > before.goroutines*1.1+50 {
		v.breaks("%.0f goroutines before, %.0f after", before.goroutines, after.goroutines)
	}
	return v
}

// warm has the server answer what the attacks ask, once, so that what is kept on purpose is kept
// before memory is compared.
func (c *campaign) warm(ctx context.Context) {
	for _, q := range append([]string{`{__name__=~".+"}`}, crowdQueries...) {
		c.query(ctx, "/api/v1/query_range", c.over(q, time.Minute))
	}
}
