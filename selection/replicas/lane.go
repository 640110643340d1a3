package replicas

import (
	"math"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/promwarp/promwarp/selection/slab"
)

// sample is a sample of a chunk. One with a histogram is a chunks.Sample.
type sample struct {
	t         int64                     // ms
	value     float64                   // of a float
	histogram *histogram.FloatHistogram // nil for a float
	of        *slab.Chunk
	first     bool // of its chunk
	gauge     bool // a histogram that its replica says to be one
}

func (s *sample) ST() int64                     { return 0 }
func (s *sample) T() int64                      { return s.t }
func (s *sample) F() float64                    { return s.value }
func (s *sample) H() *histogram.Histogram       { return nil }
func (s *sample) FH() *histogram.FloatHistogram { return s.histogram }
func (s *sample) Type() chunkenc.ValueType      { return chunkenc.ValFloatHistogram }
func (s *sample) Copy() chunks.Sample           { return s }

// isFloat may be asked of nil.
func (s *sample) isFloat() bool { return s != nil && s.histogram == nil }

// earliest is before all samples, in ms.
const earliest = math.MinInt64 + 1

// source is samples in time order: a lane, or what is chosen of two sources.
type source interface {
	// seek goes on to the first sample at t (ms) or later. It returns nil at the end, and is not asked again.
	seek(t int64) *sample
	// raise adds to a counter what the present sample is behind least.
	raise(least float64)
}

// lane is the samples of chunks that do not overlap.
type lane struct {
	samples  []sample // from the present one on
	present  sample   // raised
	raised   float64  // what is added to values
	counting bool
}

func (l *lane) seek(t int64) *sample {
	for len(l.samples) > 0 && l.samples[0].t < t {
		l.samples = l.samples[1:]
	}
	if len(l.samples) == 0 {
		return nil
	}
	if l.present = l.samples[0]; l.counting {
		l.present.value += l.raised
	}
	return &l.present
}

func (l *lane) raise(least float64) {
	if l.counting && least > l.present.value {
		l.raised += least - l.present.value
		l.present.value = l.samples[0].value + l.raised
	}
}

// firstPenalty is the penalty in ms of what is not read where there is no last distance yet.
const firstPenalty = 5000

// pair is what is chosen of two sources.
type pair struct {
	in      [2]source
	present [2]*sample // of each; nil at its end
	penalty [2]int64   // ms that the next sample must be later by
	chosen  int        // the source that is read
	last    int64      // time of its present sample, in ms; before earliest at the begin
}

func newPair(a, b source) *pair {
	return &pair{in: [2]source{a, b}, present: [2]*sample{a.seek(earliest), b.seek(earliest)}, last: earliest - 1}
}

func (p *pair) seek(t int64) *sample {
	for p.last < t {
		before, least := p.chosen, math.Inf(-1)
		if s := p.present[before]; s.isFloat() {
			least = s.value // though nothing is chosen yet at the begin, as Thanos does
		}
		for i, in := range p.in {
			if p.present[i] != nil {
				p.present[i] = in.seek(p.last + 1 + p.penalty[i])
			}
		}
		a, b := p.present[0], p.present[1]
		p.chosen = 0
		if a == nil || b != nil && b.t < a.t {
			p.chosen = 1
		}
		if p.chosen != before {
			p.raise(least)
		}
		s := p.present[p.chosen]
		if s == nil {
			return nil
		}
		if a != nil && b != nil {
			p.penalty[1-p.chosen] = firstPenalty
			if p.last >= earliest {
				p.penalty[1-p.chosen] = 2 * (s.t - p.last)
			}
		}
		p.penalty[p.chosen], p.last = 0, s.t
	}
	return p.present[p.chosen]
}

func (p *pair) raise(least float64) {
	for i, in := range p.in {
		if p.present[i].isFloat() {
			in.raise(least)
		}
	}
}
