// Package replicas merges what replicas, servers that scrape the same targets, have of one selector.
//
// Replicas have the same series, with samples at other times each. There are two ways to make one
// answer of theirs. Penalty merges them sample by sample, as Thanos does. Otherwise all samples are
// those of one replica; Gaps finds the stretches in which it has none, and Fill puts another's there.
//
// Start with Fill and Penalty.
package replicas

import (
	"context"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/selection"
)

// Gap is a stretch of time without samples, between From and To (ms, neither included).
type Gap struct{ From, To int64 }

const (
	// missedScrapes is how many scrapes take a stretch without samples to be a gap: of the series that
	// is scraped most often.
	missedScrapes = 3
	// unknownGap is the length of such a stretch in ms where it is not known how often that is.
	unknownGap = 60_000
	// samplesOfInterval is how many samples a chunk must have to tell.
	samplesOfInterval = 10
)

// Gaps returns the stretches from mint to maxt (ms, both included) in which no series of sel has a
// sample, in time order. Chunks are decoded only if they may have such a stretch within them and
// no other series has samples there.
func Gaps(ctx context.Context, sel *selection.Selection, mint, maxt int64) ([]Gap, error) {
	f, err := finder{sel: sel, least: unknownGap}, error(nil)
	if f.interval, err = f.scrapeInterval(); err != nil {
		return nil, err
	}
	if f.interval > 0 {
		f.least = missedScrapes * f.interval
	}
	gaps := f.add(nil, mint-1, maxt+1)
	watch := parallel.Watch{Ctx: ctx}
	defer watch.Leave()
	var memory []selection.Chunk
	for i := 0; i < sel.NumSeries() && len(gaps) > 0; i++ {
		if err := watch.Err(); err != nil {
			return nil, err
		}
		for _, c := range sel.OverlappingIn(&memory, i, gaps[0].From+1, gaps[len(gaps)-1].To-1) {
			if gaps, err = f.without(gaps, i, c); err != nil {
				return nil, err
			}
			if len(gaps) == 0 {
				break
			}
		}
	}
	return gaps, nil
}

// densest returns the chunk with the least mean distance between its samples and the series that it is
// of; one without samples if no chunk has two.
func densest(sel *selection.Selection) (series int, chunk selection.Chunk) {
	enough, interval := 2, int64(math.MaxInt64)
	for i := range sel.NumSeries() {
		for _, c := range sel.Chunks(i) {
			n := min(int(c.Samples), samplesOfInterval)
			if n < enough {
				continue
			}
			if d := (c.MaxT - c.MinT) / int64(c.Samples-1); n > enough || d < interval {
				enough, interval, series, chunk = n, d, i, c
			}
		}
	}
	return series, chunk
}

// scrapeInterval is the time in ms between most samples of the chunk that has most of them, 0 if that is
// not known.
func (f *finder) scrapeInterval() (int64, error) {
	series, chunk := densest(f.sel)
	if chunk.Samples == 0 {
		return 0, nil
	}
	var distances []int64
	last := int64(math.MinInt64)
	f.decoder = f.sel.Decode(series, []selection.Chunk{chunk}, math.MinInt64, math.MaxInt64, f.decoder)
	for f.decoder.Next() != chunkenc.ValNone {
		if t := f.decoder.AtT(); last != math.MinInt64 {
			distances = append(distances, t-last)
		}
		last = f.decoder.AtT()
	}
	if err := f.decoder.Err(); err != nil || len(distances) == 0 {
		return 0, err
	}
	slices.Sort(distances)
	return distances[len(distances)/2], nil
}

// finder finds gaps.
type finder struct {
	sel      *selection.Selection
	interval int64 // ms between samples of the series that is scraped most often
	least    int64 // ms that a gap is longer than
	decoder  chunkenc.Iterator
}

// add appends the stretch between two times if it is a gap.
func (f *finder) add(gaps []Gap, from, to int64) []Gap {
	if to-from > f.least {
		gaps = append(gaps, Gap{from, to})
	}
	return gaps
}

// without returns what is left of gaps with the samples of chunk c of series i.
func (f *finder) without(gaps []Gap, i int, c selection.Chunk) (left []Gap, err error) {
	dense := c.MaxT-c.MinT <= int64(c.Samples+1)*f.interval || c.Samples == 1
	for _, g := range gaps {
		switch {
		case c.MaxT <= g.From || c.MinT >= g.To:
			left = append(left, g)
		case dense:
			left = f.add(f.add(left, g.From, c.MinT), c.MaxT, g.To)
		default:
			last := g.From
			f.decoder = f.sel.Decode(i, []selection.Chunk{c}, g.From+1, g.To-1, f.decoder)
			for f.decoder.Next() != chunkenc.ValNone {
				left = f.add(left, last, f.decoder.AtT())
				last = f.decoder.AtT()
			}
			if err := f.decoder.Err(); err != nil {
				return nil, err
			}
			left = f.add(left, last, g.To)
		}
	}
	return left, nil
}

// Fill returns sel with the samples that other has in gaps, and the gaps that it has some in. A gap in
// which no series of other has two samples is none: its servers are just scraped at other moments.
func Fill(ctx context.Context, sel, other *selection.Selection, gaps []Gap) (*selection.Selection, []Gap, error) {
	parts, filled := []*selection.Selection{alone(sel)}, []Gap(nil)
	for _, g := range gaps {
		in, err := other.Cut(ctx, g.From+1, g.To-1)
		if err != nil {
			return nil, nil, err
		}
		for i := range in.NumSeries() {
			n := 0
			for _, c := range in.Overlapping(i, math.MinInt64, math.MaxInt64) {
				n += int(c.Samples)
			}
			if n > 1 {
				parts, filled = append(parts, alone(in)), append(filled, g)
				break
			}
		}
	}
	if len(filled) == 0 {
		return sel, nil, nil
	}
	merged, err := selection.Merge(ctx, parts...)
	return merged, filled, err
}

// alone is sel without what is retained with it, as its chunks will not be read again.
func alone(sel *selection.Selection) *selection.Selection {
	return sel.Filter(func(labels.Labels) bool { return true })
}
