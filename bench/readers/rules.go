package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/promwarp/promwarp/bench/peers"
)

const (
	ruleInterval = 5 * time.Second
	ruleSeconds  = 25 * time.Second // how long rules are evaluated
)

// selectors are what the rules read.
var selectors = []string{
	"http_requests_total", `http_requests_total{code=~"5.."}`, "node_cpu_seconds_total", "node_memory_bytes", "up",
}

// shapes are the rules' expressions, with %s for a selector: ten of each make fifty.
var shapes = []string{
	"sum by (job) (rate(%s[5m]))", "sum by (job) (rate(%s[10m]))", "sum by (job) (rate(%s[1h]))", "max by (job) (rate(%s[5m]))", "sum by (instance) (rate(%s[5m]))",
	"count by (job) (%s)", "max by (instance) (%s)", "avg by (job) (avg_over_time(%s[30m]))", "sum(irate(%s[5m]))", "sum by (job) (increase(%s[2h]))",
}

// rules has a Prometheus without samples of its own evaluate fifty recording rules, reading
// through the Prometheus behind promwarp and then through promwarp: as both are by default, with
// rules evaluated as of 90 s ago, four at once, and with reads that share fetches or bring less.
func rules(ctx context.Context, b *bench) error {
	var text strings.Builder
	fmt.Fprintf(&text, "groups:\n- name: fifty\n  interval: %s\n  rules:\n", ruleInterval)
	for i, shape := range shapes {
		for k, s := range selectors {
			fmt.Fprintf(&text, "  - {record: 'r:%d:%d', expr: '%s'}\n", i, k, fmt.Sprintf(shape, s))
		}
	}
	own := b.promwarp
	sharing, err := peers.StartPromwarpBefore(ctx, b.program, b.upstream.URL, "--storage.remote.read-share-window=4s")
	if err != nil {
		return err
	}
	defer func() {
		sharing.Kill()
		b.promwarp = own
	}()
	for _, r := range []struct {
		name       string
		read, warp *peers.Process
		path       string // below /api/v1/read
		offset     string
		flags      []string
	}{
		{"Prometheus", b.upstream, own, "", "0s", nil},
		{"promwarp", own, own, "", "0s", nil},
		{"promwarp, four at once", own, own, "", "0s", []string{"--enable-feature=concurrent-rule-eval"}},
		{"promwarp, /aggregate", own, own, "/aggregate", "0s", nil},
		{"promwarp, rule_query_offset 90s", own, own, "", "90s", nil},
		{"promwarp, read-share-window 4s", sharing, sharing, "", "0s", nil},
	} {
		b.promwarp = r.warp
		text := strings.Replace(text.String(), "  rules:", "  query_offset: "+r.offset+"\n  rules:", 1)
		reader, err := b.reader(ctx, r.read.URL+"/api/v1/read"+r.path, text, r.flags...)
		if err != nil {
			return err
		}
		err = b.evaluateRules(ctx, r.name, r.read, reader)
		reader.Kill()
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}

// evaluateRules lets a reader of p evaluate rules for some time, and says what that cost.
func (b *bench) evaluateRules(ctx context.Context, name string, p, reader *peers.Process) error {
	if err := sleep(ctx, 2*ruleInterval); err != nil { // until all that is settled is fetched
		return err
	}
	began, err := b.look(ctx, p, reader)
	if err != nil {
		return err
	}
	if err := sleep(ctx, ruleSeconds); err != nil {
		return err
	}
	ended, err := b.look(ctx, p, reader)
	if err != nil {
		return err
	}
	if n := ended.failures; n > 0 {
		return fmt.Errorf("%.0f evaluations failed", n)
	}
	groups := ended.groups - began.groups
	per := func(f func(state) float64) float64 { return (f(ended) - f(began)) / groups }
	fmt.Fprintf(b.out, "%-12s %-32s  evaluation %7.1f ms  CPU of reader %6.1f ms, of promwarp %6.1f ms, of Prometheus %6.1f ms  fetches %5.1f, %8.0f bytes  reads %5.1f, %9.0f bytes\n",
		"50 rules", name, 1000*per(func(s state) float64 { return s.seconds }),
		1000*per(func(s state) float64 { return s.reader.Seconds() }), 1000*per(func(s state) float64 { return s.promwarp.Seconds() }), 1000*per(func(s state) float64 { return s.upstream.Seconds() }),
		per(func(s state) float64 { return s.fetches }), per(func(s state) float64 { return s.fetched }), per(func(s state) float64 { return s.reads }), per(func(s state) float64 { return s.read }))
	return nil
}

// reader starts a Prometheus without samples that reads from url and evaluates rules, if there
// are any, with further flags.
func (b *bench) reader(ctx context.Context, url, rules string, flags ...string) (*peers.Process, error) {
	dir, err := os.MkdirTemp(b.dir, "reader-")
	if err != nil {
		return nil, err
	}
	config := fmt.Sprintf("remote_read: [{url: '%s', read_recent: true}]\n", url)
	if rules != "" {
		file := filepath.Join(dir, "rules.yml")
		if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
			return nil, err
		}
		config += fmt.Sprintf("rule_files: ['%s']\n", file)
	}
	return peers.StartReader(ctx, b.binary, dir, config, flags...)
}

// state is what the processes have done so far.
type state struct {
	reader, promwarp, upstream    time.Duration
	groups, seconds, failures     float64 // evaluations of rule groups
	fetches, fetched, reads, read float64 // of promwarp
}

func (b *bench) look(ctx context.Context, read, reader *peers.Process) (s state, err error) {
	own, err := b.times(b.promwarp)
	if err != nil {
		return s, err
	}
	s.promwarp, s.upstream = own[0], own[1]
	if s.reader, err = reader.CPU(); err != nil {
		return s, err
	}
	m, err := metrics(ctx, reader.URL)
	if err != nil {
		return s, err
	}
	s.groups, s.failures = m["prometheus_rule_group_iterations_total"]-m["prometheus_rule_group_iterations_missed_total"], m["prometheus_rule_evaluation_failures_total"]
	s.seconds = m["prometheus_rule_group_duration_seconds_sum"]
	if read == b.promwarp {
		if m, err = metrics(ctx, b.promwarp.URL); err != nil {
			return s, err
		}
		s.fetches, s.fetched = m["promwarp_cache_fetches_total"], m["promwarp_remote_read_received_bytes_total"]
		s.reads, s.read = m["promwarp_read_requests_total"], m["promwarp_read_bytes_total"]
	}
	return s, nil
}

// metrics returns the sums of a server's metrics over their labels.
func metrics(ctx context.Context, base string) (map[string]float64, error) {
	page, err := peers.Get(ctx, base+"/metrics")
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for name, f := range families {
		for _, m := range f.Metric {
			out[name] += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			out[name+"_sum"] += m.GetSummary().GetSampleSum() + m.GetHistogram().GetSampleSum()
		}
	}
	return out, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// panels are range queries of a day up to what is settled, each step a minute.
var panels = []string{"sum by (job) (rate(http_requests_total[5m]))", "max by (instance) (node_memory_bytes)", "sum(up)"}

// dashboard has a Prometheus evaluate range queries: of its own blocks, through the Prometheus
// behind promwarp, and through promwarp.
func dashboard(ctx context.Context, b *bench) error {
	for _, server := range []struct{ name, read string }{
		{"its own blocks", ""}, {"through Prometheus", b.upstream.URL}, {"through promwarp", b.promwarp.URL},
	} {
		p := b.upstream
		if server.read != "" {
			var err error
			if p, err = b.reader(ctx, server.read+"/api/v1/read", ""); err != nil {
				return err
			}
			defer p.Kill()
		}
		for _, q := range panels {
			var last time.Duration
			times := make([]took, b.rounds)
			before, err := p.CPU()
			if err != nil {
				return err
			}
			for i := range times {
				if last, err = b.evaluate(ctx, p, q); err != nil {
					return fmt.Errorf("%s: %w", server.name, err)
				}
				times[i].last = last
			}
			after, err := p.CPU()
			if err != nil {
				return err
			}
			fmt.Fprintf(b.out, "%-24s %-50s %8.1f ms  CPU of the reader %8.1f ms\n", server.name, q,
				milliseconds(median(times, func(t took) time.Duration { return t.last })), milliseconds(after-before)/float64(b.rounds))
		}
	}
	return nil
}

// evaluate has p evaluate q over a day, and says how long that took.
func (b *bench) evaluate(ctx context.Context, p *peers.Process, q string) (time.Duration, error) {
	end := b.settled / 1000
	form := url.Values{"query": {q}, "start": {fmt.Sprint(end - 23*3600)}, "end": {fmt.Sprint(end)}, "step": {"60"}}
	began := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+"/api/v1/query_range?"+form.Encode(), nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	took := time.Since(began)
	var answer struct {
		Status, Error string
		Data          struct{ Result []json.RawMessage }
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return 0, err
	}
	if answer.Status != "success" || len(answer.Data.Result) == 0 {
		return 0, fmt.Errorf("%s: %d series, error %q", q, len(answer.Data.Result), answer.Error)
	}
	return took, nil
}
