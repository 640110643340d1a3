// Package replicas merges what replicas, servers that scrape the same targets, have of one selector.
//
// Replicas have the same series, with samples at other times each. There are two ways to make one
// answer of theirs. Penalty merges them sample by sample, as Thanos does. Otherwise all samples are
// those of one replica; Gaps finds the stretches in which it has none, and Fill puts another's there.
//
// Start with Fill and Penalty.
package replicas

import (
	"cmp"
	"context"

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
// sample, in time order. Of chunks in which others have samples all the time nothing is decoded.
func Gaps(ctx context.Context, sel *selection.Selection, mint, maxt int64) ([]Gap, error) {
	least := int64(unknownGap)
	if interval := scrapeInterval(sel); interval > 0 {
		least = missedScrapes * interval
	}
	add := func(gaps []Gap, from, to int64) []Gap {
		if to-from > least {
			gaps = append(gaps, Gap{from, to})
		}
		return gaps
	}
	gaps := add(nil, mint-1, maxt+1)
	watch := parallel.Watch{Ctx: ctx}
	defer watch.Leave()
	var memory []selection.Chunk
	var decoder chunkenc.Iterator
	for i := range sel.NumSeries() {
		var left []Gap
		for _, g := range gaps {
			last := g.From
			decoder = sel.Decode(i, sel.OverlappingIn(&memory, i, g.From+1, g.To-1), g.From+1, g.To-1, decoder)
			for decoder.Next() != chunkenc.ValNone {
				left = add(left, last, decoder.AtT())
				last = decoder.AtT()
			}
			if err := cmp.Or(decoder.Err(), watch.Err()); err != nil {
				return nil, err
			}
			left = add(left, last, g.To)
		}
		if gaps = left; len(gaps) == 0 {
			break
		}
	}
	return gaps, nil
}

// scrapeInterval is the least mean time in ms between the samples of a chunk of enough samples, else of
// the chunk that has most of them; 0 if that is not known.
func scrapeInterval(sel *selection.Selection) (interval int64) {
	enough := 2
	for i := range sel.NumSeries() {
		for _, c := range sel.Chunks(i) {
			n := min(int(c.Samples), samplesOfInterval)
			if n < enough {
				continue
			}
			mean := (c.MaxT - c.MinT) / int64(c.Samples-1)
			if n > enough || interval == 0 || mean < interval {
				enough, interval = n, mean
			}
		}
	}
	return interval
}

// Fill returns sel with the samples that other has in gaps, sel itself if there are none. A gap in which
// no series of other has two samples is none: its servers are just scraped at other moments.
func Fill(ctx context.Context, sel, other *selection.Selection, gaps []Gap) (*selection.Selection, error) {
	parts := []*selection.Selection{alone(sel)}
	for _, g := range gaps {
		in, err := other.Cut(ctx, g.From+1, g.To-1)
		if err != nil {
			return nil, err
		}
		if in.NumSamples() > int64(in.NumSeries()) { // each has one at least
			parts = append(parts, alone(in))
		}
	}
	if len(parts) == 1 {
		return sel, nil
	}
	return selection.Merge(ctx, parts...)
}

// alone is sel without what is retained with it, as its chunks will not be read again.
func alone(sel *selection.Selection) *selection.Selection {
	return sel.Filter(func(labels.Labels) bool { return true })
}
