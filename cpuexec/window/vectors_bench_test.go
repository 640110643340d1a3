package window

import (
	"testing"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/plan"
)

// BenchmarkVectors measures what is done at several steps at once, where the processor can, each by
// itself at 1440 steps of a minute, and all of it for a rate of a series whose samples come late.
// GODEBUG=cpu.avx2=off has the plain forms.
func BenchmarkVectors(b *testing.B) {
	const steps, samples = 1440, 4*1440 + 20
	values, ts := make([]float64, samples), make([]int64, samples)
	p := column.Packed{Units: make([]uint32, samples), Base: 1e6, Unit: 1}
	for k := range values {
		p.Units[k] = uint32(7*k + k%3)
		values[k] = p.Value(int32(k))
		ts[k] = int64(k)*15_000 + int64(k*7%13)
	}
	fr := &frame{}
	fr.lo, fr.hi, fr.to = make([]int32, steps), make([]int32, steps), steps
	bitmap := make([]uint64, (steps+63)/64)
	dense.Row{Present: bitmap}.Mark(0, steps)
	fr.any = bitmap
	fr.extraMade.Do(func() {})
	e := &fr.extra
	e.factor, e.near, e.pairs, e.points = make([]float64, steps), make([]float64, steps), bitmap, steps
	for k := range steps {
		fr.lo[k], fr.hi[k] = int32(4*k), int32(4*k+20)
		e.factor[k], e.near[k] = 1.0/300, 0.1
	}
	out := dense.New(steps)
	s := &Evaluator{}
	s.fr, s.split, s.out, s.in.Packed = fr, steps, out, p
	sp := Span{Grid: plan.Grid{Start: 300_000, Interval: 60_000, Steps: steps}, Scan: &plan.Scan{}, Width: 300_000}
	late := packedSamples(b, 1, ts, values, samples)[0]
	for _, c := range []struct {
		name string
		do   func()
	}{
		{"increases, packed", func() { e.packedDifferences(fr, &p, counterRate, out.Values, 0, steps) }},
		{"increases", func() { e.differences(fr, values, counterRate, out.Values, 0, steps) }},
		{"last two", func() { s.lastPairs(counterLast) }},
		{"newest", func() { s.newest() }},
		{"windows counted", func() { fr.count(make([]uint64, len(bitmap))) }},
		{"rate, late samples", func() {
			frames, w, c := NewFrames(sp), &Evaluator{}, dense.Counts{}
			if err := w.Evaluate(frames, &Call{Func: Of(Named("rate"))}, late, out, &c); err != nil {
				b.Fatal(err)
			}
			frames.Release()
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				c.do()
			}
		})
	}
}
