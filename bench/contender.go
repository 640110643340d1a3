package main

import (
	"bytes"
	"context"
	"maps"
	"net/url"

	"github.com/promwarp/promwarp/bench/answer"
	"github.com/promwarp/promwarp/bench/peers"
	"github.com/promwarp/promwarp/bench/report"
)

// contender is someone to ask, in some state.
type contender struct {
	name  string
	exact bool // must answer what Prometheus does
	cold  bool // stays cold when it is asked
	twice bool // is warm only when it has been asked twice: it keeps decoded what is asked for again
	ask   func(ctx context.Context, form url.Values, buf *bytes.Buffer) (answer.Answer, error)
}

// line lines up the contenders, Prometheus first.
func (f *field) line() {
	f.contenders = []contender{{name: report.Prometheus, exact: true, ask: running(f.prometheus)}}
	if f.promwarp != nil {
		f.contenders = append(f.contenders,
			contender{name: report.PromwarpFirst, exact: true, cold: true, ask: f.askFirst},
			contender{name: report.Promwarp, exact: true, twice: true, ask: running(f.promwarp)})
	}
	if f.gzip {
		f.contenders = append(f.contenders, contender{name: report.Promwarp + ", gzip", exact: true, ask: func(ctx context.Context, form url.Values, buf *bytes.Buffer) (answer.Answer, error) {
			return answer.AskGzip(ctx, f.promwarp.URL, form, buf)
		}})
	}
	for i, n := range f.cores {
		f.contenders = append(f.contenders, contender{name: report.OnCores(n), exact: true, twice: true, ask: running(f.onCores[i])})
	}
	if f.vm != nil {
		f.contenders = append(f.contenders, contender{name: report.VictoriaMetrics, ask: uncached(running(f.vm))})
	}
	for _, c := range f.contenders {
		f.setup.Contenders = append(f.setup.Contenders, c.name)
	}
}

type asking = func(context.Context, url.Values, *bytes.Buffer) (answer.Answer, error)

// running asks a server that runs.
func running(p *peers.Process) asking {
	return func(ctx context.Context, form url.Values, buf *bytes.Buffer) (answer.Answer, error) {
		return answer.Ask(ctx, p.URL, form, buf)
	}
}

// uncached asks VictoriaMetrics to compute its answer.
func uncached(ask asking) asking {
	return func(ctx context.Context, form url.Values, buf *bytes.Buffer) (answer.Answer, error) {
		form = maps.Clone(form)
		form.Set("nocache", "1")
		return ask(ctx, form, buf)
	}
}

// askFirst asks a promwarp that has just started.
func (f *field) askFirst(ctx context.Context, form url.Values, buf *bytes.Buffer) (answer.Answer, error) {
	p, err := peers.StartPromwarp(ctx, f.promwarpProgram, f.prometheus.URL, f.decoded, f.results)
	if err != nil {
		return answer.Answer{}, err
	}
	defer p.Kill()
	a, err := answer.Ask(ctx, p.URL, form, buf)
	f.firstPeak = max(f.firstPeak, p.PeakRSS())
	return a, err
}
