package backfill

import (
	"context"
	"errors"
	"math"
	"slices"
	"sort"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/selection"
)

// series is what the stretch has of a recorded series, and how far the rule is that records it now.
type series struct {
	promql.Series
	of        *result       // of the rule
	there     bool          // at the last evaluation that did not fail
	histogram bool          // its newest sample is one
	now       promql.Sample // the newest result
}

// write adds what the rule writes at a time: the sample that there is, or a stale marker behind one.
// Where a rule before this one recorded another sample, Prometheus takes the series for one that this
// rule has not.
func (s *series) write(t int64) {
	is := s.now.T == t && s.add(s.now)
	switch {
	case is:
		s.histogram = s.now.H != nil
	case s.there && s.histogram:
		s.add(promql.Sample{T: t, H: &histogram.FloatHistogram{Sum: staleNaN}})
	case s.there:
		s.add(promql.Sample{T: t, F: staleNaN})
	}
	s.there = is
}

var staleNaN = math.Float64frombits(value.StaleNaN)

// add adds a sample, and reports whether the series has it then. A sample that another rule recorded at
// that time stays, as in Prometheus.
func (s *series) add(p promql.Sample) bool {
	i, k := s.position(p.T)
	switch {
	case i < len(s.Floats) && s.Floats[i].T == p.T:
		return p.H == nil && math.Float64bits(p.F) == math.Float64bits(s.Floats[i].F)
	case k < len(s.Histograms) && s.Histograms[k].T == p.T:
		return p.H != nil && p.H.Equals(s.Histograms[k].H)
	case p.H != nil:
		s.Histograms = slices.Insert(s.Histograms, k, promql.HPoint{T: p.T, H: p.H.Copy()})
	default:
		s.Floats = slices.Insert(s.Floats, i, promql.FPoint{T: p.T, F: p.F})
	}
	return true
}

// position is the index of the first point of each kind at a time or after it.
func (s *series) position(t int64) (float, histogram int) {
	return sort.Search(len(s.Floats), func(i int) bool { return s.Floats[i].T >= t }),
		sort.Search(len(s.Histograms), func(i int) bool { return s.Histograms[i].T >= t })
}

// cut is the part of the series in [mint, maxt), in ms, and nil where it has none.
func (s *series) cut(mint, maxt int64) storage.Series {
	i, k := s.position(mint)
	iEnd, kEnd := s.position(maxt)
	if i == iEnd && k == kEnd {
		return nil
	}
	return promql.NewStorageSeries(promql.Series{Metric: s.Metric, Floats: s.Floats[i:iEnd], Histograms: s.Histograms[k:kEnd]})
}

// source is what a rule reads: the upstream, and what is recorded. Its errors are fetchErrors.
type source struct {
	*backfill
	rule *rule
	at   int64 // of a single evaluation: what is recorded after it is not seen; else 0
}

// fetchError is that samples could not be read, which is no failure of a rule.
type fetchError struct{ error }

func (e fetchError) Unwrap() error { return e.error }

// Open implements selection.Source.
func (s source) Open(r selection.Request, mint, maxt int64) selection.Reader {
	return &reader{s.Upstream.Open(r, mint, maxt), s, mint, maxt}
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
			more, err := s.recorded(ctx, ask.MinT, until, matchers)
			if err != nil {
				return nil, err
			}
			parts = append(parts, more...)
		}
	}
	sel, err := selection.Merge(ctx, append(parts, upstream)...)
	if err == nil && sel != upstream {
		sel.OnDiscard = upstream.Discard
	}
	return sel, err
}

// recorded returns what blocks have in [mint, maxt], and what the stretch in memory has.
func (b *backfill) recorded(ctx context.Context, mint, maxt int64, matchers []*labels.Matcher) (parts []*selection.Selection, err error) {
	for _, block := range b.blocks {
		if !block.OverlapsClosedInterval(mint, maxt) {
			continue
		}
		q, err := tsdb.NewBlockChunkQuerier(block, mint, maxt)
		if err != nil {
			return nil, err
		}
		part, _, err := selection.FromChunkSeriesSet(ctx, q.Select(ctx, true, &storage.SelectHints{Start: mint, End: maxt}, matchers...), 0)
		if err := errors.Join(err, q.Close()); err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	memory := selection.NewBuilder(0).Within(ctx)
	for _, s := range b.series {
		if part := s.cut(mint, maxt+1); part != nil && labels.Selector(matchers).Matches(s.Metric) {
			memory.Series(s.Metric)
			err = errors.Join(err, memory.Samples(part.Iterator(nil)))
		}
	}
	part, finish := memory.Finish()
	return append(parts, part), errors.Join(err, finish)
}
