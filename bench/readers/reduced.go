package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/promwarp/promwarp/bench/peers"
)

// reducible are range queries over all samples. Those that aggregate are what
// /api/v1/read/aggregate is for, the others what /api/v1/read/thin is for.
var reducible = []string{
	`sum by (job) ({job!=""})`, "sum(http_requests_total)", "avg by (job) (http_requests_total)", "max by (instance) (http_requests_total)", "count by (job) (http_requests_total)",
	`http_requests_total{code="200"}`, "max_over_time(node_memory_bytes[5m])", "sum by (job) (rate(http_requests_total[5m]))",
	"sum by (job) (rate(http_requests_total[1h]))", "irate(http_requests_total[5m])",
}

// reduced has readers evaluate range queries over all samples, at about 720 steps, from all
// samples and from what is left of them. Their answers must be the same.
func reduced(ctx context.Context, b *bench) error {
	span := time.Duration(b.settled-b.o.Start) * time.Millisecond
	step := max(10*time.Minute, (span / 720).Truncate(10*time.Minute))
	end := time.UnixMilli(b.settled).Truncate(step)
	form := url.Values{"start": {fmt.Sprint(end.Add(-span).Truncate(step).Add(step).Unix())}, "end": {fmt.Sprint(end.Unix())}, "step": {fmt.Sprint(step.Seconds())}}
	readers := make([]*peers.Process, 3)
	paths := []string{"", "/thin", "/aggregate"}
	for i, path := range paths {
		var err error
		if readers[i], err = b.reader(ctx, b.promwarp.URL+"/api/v1/read"+path, ""); err != nil {
			return err
		}
		defer readers[i].Kill()
	}
	for _, q := range reducible {
		form.Set("query", q)
		var all string
		var before took
		for i, path := range paths {
			answer, c, err := b.read(ctx, readers[i], form)
			if err != nil {
				return fmt.Errorf("%s: %w", q, err)
			}
			if i == 0 {
				all, before = answer, c.took
			} else if answer != all {
				return fmt.Errorf("%s: another answer from %s", q, path)
			}
			fmt.Fprintf(b.out, "%-50s %-23s %8.1f ms %6.1fx  CPU of reader %8.1f ms, of promwarp %7.1f ms  %9.3f MB %6.2f %%\n", q, "/api/v1/read"+path,
				milliseconds(c.last), before.last.Seconds()/c.last.Seconds(), milliseconds(c.cpu), milliseconds(c.upstream), float64(c.bytes)/1e6, 100*float64(c.bytes)/float64(before.bytes))
		}
	}
	return nil
}

// read has p evaluate a query, after it has done so once, and returns its answer and the cost:
// of upstream, promwarp's.
func (b *bench) read(ctx context.Context, p *peers.Process, form url.Values) (answer string, c cost, err error) {
	times := make([]took, b.rounds+1)
	var began, ended [3]int64
	for i := range times {
		if i == 1 {
			if began, err = b.spent(ctx, p); err != nil {
				return "", c, err
			}
		}
		start := time.Now()
		if answer, err = peers.Get(ctx, p.URL+"/api/v1/query_range?"+form.Encode()); err != nil {
			return "", c, err
		}
		times[i].last = time.Since(start)
	}
	if ended, err = b.spent(ctx, p); err != nil {
		return "", c, err
	}
	per := func(k int) int64 { return (ended[k] - began[k]) / int64(b.rounds) }
	c.last = median(times[1:], func(t took) time.Duration { return t.last })
	c.cpu, c.upstream, c.bytes = time.Duration(per(0)), time.Duration(per(1)), per(2)
	return answer, c, nil
}

// spent is the CPU time in ns of a reader and of promwarp, and the bytes that this has sent.
func (b *bench) spent(ctx context.Context, reader *peers.Process) ([3]int64, error) {
	own, err := reader.CPU()
	cpu, err2 := b.promwarp.CPU()
	m, err3 := metrics(ctx, b.promwarp.URL)
	return [3]int64{int64(own), int64(cpu), int64(m["promwarp_read_bytes_total"])}, errors.Join(err, err2, err3)
}
