package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/promwarp/promwarp/bench/answer"
	"github.com/promwarp/promwarp/bench/peers"
	"github.com/promwarp/promwarp/bench/queries"
	"github.com/promwarp/promwarp/bench/report"
)

// The peers, as flags and results name them.
const (
	promwarp        = "promwarp"
	prometheus      = report.Prometheus
	victoriaMetrics = report.VictoriaMetrics
)

var names = [3]string{promwarp, prometheus, victoriaMetrics}

// stage is what is measured on how many cores.
type stage struct {
	kind  string // "" for promwarp and VictoriaMetrics, all queries
	cores int
}

func (s stage) String() string {
	if s.kind == "" {
		return strconv.Itoa(s.cores)
	}
	return fmt.Sprintf("%s:%d", s.kind, s.cores)
}

func parseStage(s string) (stage, error) {
	kind, cores, ok := strings.Cut(strings.TrimSpace(s), ":")
	if !ok {
		kind, cores = "", kind
	}
	n, err := strconv.Atoi(cores)
	if err != nil || n < 1 || n > runtime.NumCPU() {
		return stage{}, fmt.Errorf("%q is no number of cores from 1 to %d", cores, runtime.NumCPU())
	}
	if !slices.Contains([]string{"", "gzip", "jitter", prometheus}, kind) {
		return stage{}, fmt.Errorf("there is no %q; there are gzip, jitter and prometheus", kind)
	}
	return stage{kind, n}, nil
}

// own are queries besides those of the comparison.
var own = []queries.Query{
	{Name: "five-groups", Expr: `sum by (job) (rate(http_requests_total{job=~"job-[0-4]"}[5m]))`, Range: 24 * time.Hour, Step: time.Minute},
	{Name: "one-group", Expr: `sum(rate(http_requests_total[5m]))`, Range: 24 * time.Hour, Step: time.Minute},
	{Name: "deriv-by-job", Expr: `max by (job) (deriv(node_memory_bytes[15m]))`, Range: 24 * time.Hour, Step: time.Minute},
	{Name: "stddev-by-job", Expr: `sum by (job) (stddev_over_time(node_memory_bytes[30m]))`, Range: 24 * time.Hour, Step: time.Minute},
	{Name: "avg-of-a-day", Expr: `sum(avg_over_time(node_memory_bytes[1d]))`, Range: 24 * time.Hour, Step: time.Minute},
}

// everything is what is asked on each number of cores.
var everything = slices.Concat(queries.All, own)

// long are queries with long answers, for gzip. Of 10 000 series the first yields half a million
// points.
var long = []queries.Query{
	{Name: "half-a-job", Expr: `rate(http_requests_total{job="job-2", method="GET"}[5m])`, Range: 24 * time.Hour, Step: time.Minute},
	{Name: "a-job", Expr: `rate(http_requests_total{job="job-1"}[5m])`, Range: 24 * time.Hour, Step: time.Minute},
	{Name: "gauges", Expr: `node_memory_bytes{job="job-0"}`, Range: 24 * time.Hour, Step: time.Minute},
}

// contender is who is asked, and how.
type contender struct {
	key    key // but for the query
	url    string
	ask    asking
	jitter string // of its samples
	source string // URL of the Prometheus with its samples
}

// measure goes through a stage.
func (b *bench) measure(ctx context.Context, s stage) error {
	if err := b.generate(ctx, "none", s.kind == "" || s.kind == "gzip"); err != nil {
		return err
	}
	switch s.kind {
	case "gzip":
		return b.gzip(ctx, s.cores)
	case "jitter":
		return b.jitter(ctx, s.cores)
	case prometheus:
		return b.alone(ctx, s.cores)
	}
	source, err := b.upstream(ctx, "none", 0)
	if err != nil {
		return err
	}
	cs := make([]contender, 2)
	if cs[0], err = b.promwarp(ctx, s.cores, "none", source); err != nil {
		return err
	}
	if cs[1], err = b.victoriaMetrics(ctx, s.cores); err != nil {
		return err
	}
	defer b.peaks(cs)
	return b.ask(ctx, b.asked(everything...), cs)
}

// gzip has all three answer at length, as it is and compressed.
func (b *bench) gzip(ctx context.Context, cores int) error {
	source, err := b.upstream(ctx, "none", cores)
	if err != nil {
		return err
	}
	cs := []contender{{key: key{Peer: prometheus, Cores: cores}, url: source, ask: answer.Ask}, {}, {}}
	if cs[1], err = b.promwarp(ctx, cores, "none", source); err != nil {
		return err
	}
	if cs[2], err = b.victoriaMetrics(ctx, cores); err != nil {
		return err
	}
	for _, c := range slices.Clone(cs) {
		c.key.Variant = "gzip"
		c.ask = answer.AskGzip
		if c.key.Peer == victoriaMetrics {
			c.ask = uncached(answer.AskGzip)
		}
		cs = append(cs, c)
	}
	return b.ask(ctx, b.asked(long...), cs)
}

// jitter has promwarp answer from series with times of their own beside shared ones.
func (b *bench) jitter(ctx context.Context, cores int) error {
	var cs []contender
	for _, jitter := range []string{"none", "series"} {
		if err := b.generate(ctx, jitter, false); err != nil {
			return err
		}
		source, err := b.upstream(ctx, jitter, 0)
		if err != nil {
			return err
		}
		c, err := b.promwarp(ctx, cores, jitter, source)
		if err != nil {
			return err
		}
		c.key.Variant = "shared"
		if jitter == "series" {
			c.key.Variant = "own"
		}
		cs = append(cs, c)
	}
	return b.ask(ctx, b.asked(everything...), cs)
}

// alone has Prometheus answer once a query, the fastest first.
func (b *bench) alone(ctx context.Context, cores int) error {
	source, err := b.upstream(ctx, "none", cores)
	if err != nil {
		return err
	}
	qs := b.asked(everything...)
	others := b.result.least(victoriaMetrics)
	slices.SortStableFunc(qs, func(a, c queries.Query) int { return cmp.Compare(others[a.Name], others[c.Name]) })
	return b.ask(ctx, qs, []contender{{key: key{Peer: prometheus, Cores: cores}, url: source, ask: answer.Ask}})
}

// upstream starts the Prometheus that has the samples with the jitter, on all cores for 0.
func (b *bench) upstream(ctx context.Context, jitter string, cores int) (string, error) {
	p, err := peers.StartReader(ctx, b.programs[1].On(cores), b.folder(jitter), "",
		"--query.timeout=10m", "--query.max-concurrency=64", "--query.max-samples=1000000000")
	return b.started(p, err)
}

func (b *bench) promwarp(ctx context.Context, cores int, jitter, source string) (contender, error) {
	args := []string{"--gpu=off", "--cache.results-bytes=0"}
	if b.decoded != "" {
		args = append(args, "--cache.decoded-bytes="+b.decoded)
	}
	at, err := b.started(peers.StartPromwarpBefore(ctx, b.programs[0].On(cores), source, args...))
	return contender{key: key{Peer: promwarp, Cores: cores}, url: at, ask: answer.Ask, jitter: jitter, source: source}, err
}

func (b *bench) victoriaMetrics(ctx context.Context, cores int) (contender, error) {
	at, err := b.started(peers.StartVictoriaMetrics(ctx, b.programs[2].On(cores), b.dir))
	return contender{key: key{Peer: victoriaMetrics, Cores: cores}, url: at, ask: uncached(answer.Ask)}, err
}

// started notes a server that the stage's end will end.
func (b *bench) started(p *peers.Process, err error) (string, error) {
	if err != nil {
		return "", err
	}
	b.running = append(b.running, p)
	return p.URL, nil
}

type asking = func(context.Context, string, url.Values, *bytes.Buffer) (answer.Answer, error)

// uncached asks VictoriaMetrics to compute its answer.
func uncached(ask asking) asking {
	return func(ctx context.Context, base string, form url.Values, buf *bytes.Buffer) (answer.Answer, error) {
		form.Set("nocache", "1")
		defer form.Del("nocache")
		return ask(ctx, base, form, buf)
	}
}
