package backfill

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"sort"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/fileutil"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/selection"
)

// own is the directory within the output directory that is this program's.
func (o *Options) own() string { return filepath.Join(o.Output, ".backfill") }

// made is where blocks are written.
func (o *Options) made() string { return filepath.Join(o.own(), "blocks") }

// add adds a sample to a series, and reports whether the series has it then. A sample that another rule
// recorded at that time stays, as in Prometheus.
func add(s *promql.Series, p promql.Sample) bool {
	i, k := position(s, p.T)
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
func position(s *promql.Series, t int64) (float, histogram int) {
	return sort.Search(len(s.Floats), func(i int) bool { return s.Floats[i].T >= t }),
		sort.Search(len(s.Histograms), func(i int) bool { return s.Histograms[i].T >= t })
}

// cut is the part of a series in [mint, maxt), in ms.
func cut(s *promql.Series, mint, maxt int64) promql.Series {
	i, k := position(s, mint)
	iEnd, kEnd := position(s, max(mint, maxt))
	return promql.Series{Metric: s.Metric, Floats: s.Floats[i:iEnd], Histograms: s.Histograms[k:kEnd]}
}

// write writes the stretch [mint, maxt) into blocks, and returns their names.
func (b *backfill) write(mint, maxt int64) (names []string, err error) {
	duration := b.BlockDuration.Milliseconds()
	first := mint / duration
	n := int((maxt-1)/duration - first + 1)
	names = make([]string, n)
	errs := make([]error, n)
	parallel.For(n, func(i int) {
		from := (first + int64(i)) * duration
		var all []storage.Series
		for _, series := range b.series {
			if part := cut(series, from, from+duration); len(part.Floats)+len(part.Histograms) > 0 {
				all = append(all, promql.NewStorageSeries(part))
			}
		}
		if len(all) == 0 {
			return
		}
		// A block writer takes samples up to half its range before the newest one.
		path, err := tsdb.CreateBlock(all, b.made(), 2*duration, promslog.NewNopLogger())
		names[i], errs[i] = filepath.Base(path), err
	})
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("writing blocks to %s: %w", b.made(), err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" }), nil
}

// adopt moves written blocks to the output directory, and opens them, so that rules read them. A block
// that is not there any more was moved elsewhere by a person.
func (b *backfill) adopt(names []string) error {
	for _, name := range names {
		dir := filepath.Join(b.Output, name)
		if err := fileutil.Rename(filepath.Join(b.made(), name), dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("moving a block to the output directory: %w", err)
		}
		block, err := tsdb.OpenBlock(promslog.NewNopLogger(), dir, nil, tsdb.DefaultPostingsDecoderFactory)
		if err == nil {
			b.blocks = append(b.blocks, block)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("reading the block %s: %w", dir, err)
		}
	}
	return nil
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
	for _, series := range b.series {
		if !labels.Selector(matchers).Matches(series.Metric) {
			continue
		}
		part := cut(series, mint, maxt+1)
		memory.Series(part.Metric)
		if err := memory.Samples(promql.NewStorageSeries(part).Iterator(nil)); err != nil {
			return nil, err
		}
	}
	part, err := memory.Finish()
	return append(parts, part), err
}
