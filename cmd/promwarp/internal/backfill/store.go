package backfill

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/selection"
)

// store holds what is recorded: a stretch in memory, and the blocks of those before it.
type store struct {
	series map[string]*promql.Series
	blocks []*tsdb.Block
	rules  []*rule
}

// add adds samples of a series, and returns how many. Where another rule recorded the series at the same
// time its sample stays, as in Prometheus.
func (s *store) add(key string, more promql.Series) (n int64) {
	n = int64(len(more.Floats) + len(more.Histograms))
	is := s.series[key]
	if n == 0 {
		return n
	}
	if is == nil {
		s.series[key] = &more
		return n
	}
	is.Floats = inOrder(append(is.Floats, more.Floats...), len(is.Floats), func(p promql.FPoint) int64 { return p.T })
	is.Histograms = inOrder(append(is.Histograms, more.Histograms...), len(is.Histograms), func(p promql.HPoint) int64 { return p.T })
	return n
}

// inOrder sorts points by time, of which those from the given one on were added. The first one of a
// time stays.
func inOrder[P any](points []P, added int, at func(P) int64) []P {
	if added == 0 || added == len(points) || at(points[added-1]) < at(points[added]) {
		return points
	}
	slices.SortStableFunc(points, func(a, b P) int { return int(at(a) - at(b)) })
	return slices.CompactFunc(points, func(a, b P) bool { return at(a) == at(b) })
}

// between are the points in [mint, maxt).
func between[P any](points []P, mint, maxt int64, at func(P) int64) []P {
	search := func(t int64) int {
		i, _ := slices.BinarySearchFunc(points, t, func(p P, t int64) int { return int(at(p) - t) })
		return i
	}
	return points[search(mint):max(search(mint), search(maxt))]
}

// cut is the part of a series in [mint, maxt), in ms.
func cut(s *promql.Series, mint, maxt int64) promql.Series {
	return promql.Series{
		Metric: s.Metric, Floats: between(s.Floats, mint, maxt, func(p promql.FPoint) int64 { return p.T }),
		Histograms: between(s.Histograms, mint, maxt, func(p promql.HPoint) int64 { return p.T }),
	}
}

// write writes the stretch [mint, maxt) into blocks below dir, and returns their names.
func (s *store) write(dir string, mint, maxt, duration int64) (names []string, err error) {
	first := mint / duration
	n := int((maxt-1)/duration - first + 1)
	names = make([]string, n)
	errs := make([]error, n)
	parallel.For(n, func(i int) {
		from := (first + int64(i)) * duration
		var all []storage.Series
		for _, series := range s.series {
			if part := cut(series, from, from+duration); len(part.Floats)+len(part.Histograms) > 0 {
				all = append(all, promql.NewStorageSeries(part))
			}
		}
		if len(all) == 0 {
			return
		}
		// A block writer takes samples up to half its range before the newest one.
		path, err := tsdb.CreateBlock(all, dir, 2*duration, promslog.NewNopLogger())
		names[i], errs[i] = filepath.Base(path), err
	})
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("writing blocks to %s: %w", dir, err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" }), nil
}

// open opens the blocks of these names in a directory, * for all, so that rules read them.
func (s *store) open(dir string, names ...string) error {
	for _, name := range names {
		files, err := filepath.Glob(filepath.Join(dir, name, "meta.json"))
		if err != nil {
			return err
		}
		for _, file := range files {
			b, err := tsdb.OpenBlock(promslog.NewNopLogger(), filepath.Dir(file), nil, tsdb.DefaultPostingsDecoderFactory)
			if err != nil {
				return fmt.Errorf("reading the block %s: %w", filepath.Dir(file), err)
			}
			s.blocks = append(s.blocks, b)
		}
	}
	return nil
}

// close closes the blocks.
func (s *store) close() error {
	var all []error
	for _, b := range s.blocks {
		all = append(all, b.Close())
	}
	return errors.Join(all...)
}

// source is what a rule reads: the upstream, and what is recorded. Its errors are fetchErrors.
type source struct {
	*store
	upstream selection.Source
	rule     *rule
	at       int64 // of a single evaluation: what is recorded after it is not seen; else 0
}

// fetchError is that samples could not be read, which is no failure of a rule.
type fetchError struct{ error }

func (e fetchError) Unwrap() error { return e.error }

// Open implements selection.Source.
func (s source) Open(r selection.Request, mint, maxt int64) selection.Reader {
	return &reader{s.upstream.Open(r, mint, maxt), s, mint, maxt}
}

// reader reads for one query.
type reader struct {
	selection.Reader
	source
	mint, maxt int64
}

// SelectChunks implements selection.Querier.
func (r *reader) SelectChunks(ctx context.Context, hints *storage.SelectHints, matchers ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	one := selection.Ask{Ctx: ctx, Matchers: matchers}
	one.MinT, one.MaxT = selection.Bounds(hints, r.mint, r.maxt)
	if hints != nil {
		one.Hints = func() storage.SelectHints { return *hints }
	}
	return r.BeginChunks([]selection.Ask{one})[0](ctx)
}

// BeginChunks implements selection.Beginner.
func (r *reader) BeginChunks(asks []selection.Ask) []selection.Get {
	asks = slices.Clone(asks)
	for i := range asks {
		if r.rule.recorded {
			asks[i].Came = nil // a part of the upstream's is none of what all have
		}
	}
	gets := r.Reader.BeginChunks(asks)
	for i, get := range gets {
		gets[i] = func(ctx context.Context) (*selection.Selection, annotations.Annotations, error) {
			sel, ws, err := get(ctx)
			if err == nil && r.rule.recorded {
				sel, err = r.withRecorded(ctx, sel, asks[i])
			}
			if err != nil {
				return nil, ws, fetchError{err}
			}
			return sel, ws, nil
		}
	}
	return gets
}

// withRecorded adds what is recorded to what the upstream has. Of two samples at one time the recorded
// one stays.
func (s *source) withRecorded(ctx context.Context, upstream *selection.Selection, ask selection.Ask) (*selection.Selection, error) {
	var parts []*selection.Selection
	for _, r := range s.rules {
		until := ask.MaxT
		if s.at != 0 {
			until = min(until, s.at-r.delay(s.rule))
		}
		for _, known := range r.writes {
			if until < ask.MinT || !mayMatch(known, ask.Matchers) {
				continue
			}
			matchers := slices.Clone(ask.Matchers)
			known.Range(func(l labels.Label) {
				matchers = append(matchers, labels.MustNewMatcher(labels.MatchEqual, l.Name, l.Value))
			})
			past, err := s.past(ctx, ask.MinT, until, matchers)
			if err != nil {
				return nil, err
			}
			now, err := s.stretch(ctx, ask.MinT, until, matchers)
			if err != nil {
				return nil, err
			}
			parts = append(parts, past, now)
		}
	}
	sel, err := selection.Merge(ctx, append(parts, upstream)...)
	if err == nil && sel != upstream {
		sel.OnDiscard = upstream.Discard
	}
	return sel, err
}

// past returns what blocks have.
func (s *store) past(ctx context.Context, mint, maxt int64, matchers []*labels.Matcher) (*selection.Selection, error) {
	var queriers []storage.ChunkQuerier
	for _, b := range s.blocks {
		if b.OverlapsClosedInterval(mint, maxt) {
			q, err := tsdb.NewBlockChunkQuerier(b, mint, maxt)
			if err != nil {
				return nil, err
			}
			defer q.Close()
			queriers = append(queriers, q)
		}
	}
	all := storage.NewMergeChunkQuerier(queriers, nil, storage.NewCompactingChunkSeriesMerger(storage.ChainedSeriesMerge))
	sel, _, err := selection.FromChunkSeriesSet(ctx, all.Select(ctx, true, &storage.SelectHints{Start: mint, End: maxt}, matchers...), 0)
	return sel, err
}

// stretch returns what matches of the stretch in memory.
func (s *store) stretch(ctx context.Context, mint, maxt int64, matchers []*labels.Matcher) (*selection.Selection, error) {
	b := selection.NewBuilder(0).Within(ctx)
	var times []int64
	var values []float64
	for _, series := range s.series {
		if slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(series.Metric.Get(m.Name)) }) {
			continue
		}
		part := cut(series, mint, maxt+1)
		b.Series(part.Metric)
		if len(part.Histograms) > 0 {
			if err := b.Samples(promql.NewStorageSeries(part).Iterator(nil)); err != nil {
				return nil, err
			}
			continue
		}
		times, values = times[:0], values[:0]
		for _, p := range part.Floats {
			times, values = append(times, p.T), append(values, p.F)
		}
		if err := b.Floats(times, values); err != nil {
			return nil, err
		}
	}
	return b.Finish()
}
