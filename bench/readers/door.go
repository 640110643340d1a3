package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/prompb"
	"golang.org/x/sync/errgroup"

	"github.com/promwarp/promwarp/bench/peers"
)

// request is a remote-read request, as its body.
type request struct {
	name string
	body []byte
}

// newRequest asks for http_requests_total for some time up to what is settled, as rate(…[5m])
// with a step of a minute does.
func (b *bench) newRequest(name string, span time.Duration, typ prompb.ReadRequest_ResponseType) (request, error) {
	end := b.settled - 61_000 // within chunks
	start := max(b.o.Start, end-span.Milliseconds()) + 7000
	data, err := (&prompb.ReadRequest{
		AcceptedResponseTypes: []prompb.ReadRequest_ResponseType{typ},
		Queries: []*prompb.Query{{
			StartTimestampMs: start, EndTimestampMs: end,
			Matchers: []*prompb.LabelMatcher{{Name: "__name__", Value: "http_requests_total"}},
			Hints:    &prompb.ReadHints{StartMs: start, EndMs: end, StepMs: 60_000, RangeMs: 300_000, Func: "rate"},
		}},
	}).Marshal()
	return request{name, snappy.Encode(nil, data)}, err
}

// took is what one request cost.
type took struct {
	first, last time.Duration // to the first byte of the answer's body, and to its last
	bytes       int64
}

// client is a reader that neither compresses nor keeps what it gets.
var client = &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}}

// ask sends r to the server at base.
func ask(ctx context.Context, base string, r request) (took, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/api/v1/read", bytes.NewReader(r.body))
	if err != nil {
		return took{}, err
	}
	req.Header.Set("Content-Encoding", "snappy")
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("User-Agent", "Prometheus/3.15.0")
	began := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return took{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(resp.Body)
		return took{}, errors.Join(fmt.Errorf("%s: %s", resp.Status, text), err)
	}
	var t took
	buf := make([]byte, 256<<10)
	for {
		n, err := resp.Body.Read(buf)
		if t.bytes == 0 && n > 0 {
			t.first = time.Since(began)
		}
		if t.bytes += int64(n); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return t, err
		}
	}
	t.last = time.Since(began)
	return t, nil
}

// cost is what a server's answers cost.
type cost struct {
	took
	cpu, upstream time.Duration // per answer
	peak          int64         // bytes of the server's memory, at most
}

// measure asks p for r by readers at once, rounds times each.
func (b *bench) measure(ctx context.Context, p *peers.Process, r request, readers, rounds int) (cost, error) {
	p.ResetPeakRSS()
	before, err := b.times(p)
	if err != nil {
		return cost{}, err
	}
	all := make([]took, readers*rounds)
	group, ctx := errgroup.WithContext(ctx)
	for k := range readers {
		group.Go(func() error {
			for i := range rounds {
				t, err := ask(ctx, p.URL, r)
				if err != nil {
					return err
				}
				all[k*rounds+i] = t
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return cost{}, err
	}
	after, err := b.times(p)
	if err != nil {
		return cost{}, err
	}
	n := time.Duration(len(all))
	return cost{
		took: took{
			median(all, func(t took) time.Duration { return t.first }), median(all, func(t took) time.Duration { return t.last }), all[0].bytes,
		},
		cpu: (after[0] - before[0]) / n, upstream: (after[1] - before[1]) / n, peak: p.PeakRSS(),
	}, nil
}

// times is the CPU time of p and of the upstream.
func (b *bench) times(p *peers.Process) ([2]time.Duration, error) {
	own, err := p.CPU()
	if err != nil {
		return [2]time.Duration{}, err
	}
	upstream, err := b.upstream.CPU()
	return [2]time.Duration{own, upstream}, err
}

func median(all []took, of func(took) time.Duration) time.Duration {
	values := make([]time.Duration, len(all))
	for i, t := range all {
		values[i] = of(t)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// compare measures r with both servers, after each has answered it once.
func (b *bench) compare(ctx context.Context, r request, readers, rounds int) error {
	for _, p := range []struct {
		name string
		*peers.Process
	}{{"Prometheus", b.upstream}, {"promwarp", b.promwarp}} {
		if _, err := ask(ctx, p.URL, r); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		c, err := b.measure(ctx, p.Process, r, readers, rounds)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		if p.Process == b.upstream {
			c.upstream = 0
		}
		fmt.Fprintf(b.out, "%-24s %-10s %4d at once  first %8.1f ms  last %8.1f ms  CPU %8.1f ms, upstream %6.1f ms  %6.1f MB  peak %5d MiB\n", r.name, p.name, readers,
			milliseconds(c.first), milliseconds(c.last), milliseconds(c.cpu), milliseconds(c.upstream), float64(c.bytes)/1e6, c.peak>>20)
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// What is asked for as samples is shorter: a Prometheus holds it several times.
const sampledSpan = 4 * time.Hour

// reads has one reader at a time.
func reads(ctx context.Context, b *bench) error { return b.both(ctx, 1, b.rounds) }

// many has 64 at once.
func many(ctx context.Context, b *bench) error { return b.both(ctx, 64, 1) }

// both compares answers of chunks and of samples.
func (b *bench) both(ctx context.Context, readers, rounds int) error {
	for _, q := range []struct {
		name string
		span time.Duration
		typ  prompb.ReadRequest_ResponseType
	}{
		{"chunks", 1000 * time.Hour, prompb.ReadRequest_STREAMED_XOR_CHUNKS},
		{"samples", sampledSpan, prompb.ReadRequest_SAMPLES},
	} {
		r, err := b.newRequest(q.name, q.span, q.typ)
		if err != nil {
			return err
		}
		if err := b.compare(ctx, r, readers, rounds); err != nil {
			return err
		}
	}
	return nil
}
