package frame

import (
	"slices"

	"github.com/promwarp/promwarp/cpuexec/exact"
)

// Stride is a run of steps whose windows have equally many samples and begin equally far from each
// other, in samples, of which they share many.
type Stride struct {
	From, To       int // steps
	Every, Samples int
	Times          exact.Times // where they are the same of all, since each one's origin
}

// strides are all of a frame.
type strides struct {
	runs []Stride
	rest []int32 // the other steps with samples
}

// Strides returns f's strides, and the other steps with samples: nil for all.
func (f *Frame) Strides() ([]Stride, []int32) {
	f.stridesMade.Do(func() { f.strides.find(&f.Bounds) })
	return f.strides.list()
}

func (s *strides) list() ([]Stride, []int32) {
	if len(s.runs) == 0 {
		return nil, nil
	}
	return s.runs, s.rest
}

// find finds those of b.
func (s *strides) find(b *Bounds) {
	s.runs, s.rest = s.runs[:0], slices.Grow(s.rest[:0], 1)
	if !exact.CanAbreast() {
		return
	}
	for k := b.From; k < b.To; {
		n, every, end := b.Hi[k]-b.Lo[k], int32(0), k+1
		if end < b.To {
			every = b.Lo[end] - b.Lo[k]
		}
		most := min(b.To, k+max(2*exact.LeastRows, watchEvery/max(int(n), 1)))
		for end < most && b.Lo[end]-b.Lo[end-1] == every && b.Hi[end]-b.Lo[end] == n {
			end++
		}
		if end-k >= exact.LeastRows && every > 0 && n >= 2*every {
			s.runs = append(s.runs, Stride{From: k, To: end, Every: int(every), Samples: int(n)})
			k = end
			continue
		}
		for ; k < end; k++ {
			if n > 0 {
				s.rest = append(s.rest, int32(k))
			}
		}
	}
}

// Lines returns f's strides whose windows have the same times since their origins, for least-squares
// lines, and the other steps with samples; see Seconds.
func (f *Frame) Lines(predict bool) ([]Stride, []int32) {
	f.stridesMade.Do(func() {
		f.strides.find(&f.Bounds)
		known, ts, s := f.Seconds(predict), f.List(), &f.strides
		s.runs = slices.DeleteFunc(s.runs, func(r Stride) bool {
			for i := int(f.Lo[r.From]); i+r.Every < int(f.Hi[r.To-1]); i++ {
				if ts[i+r.Every]-ts[i] != f.Span.Grid.Interval {
					for k := r.From; k < r.To; k++ {
						s.rest = append(s.rest, int32(k))
					}
					return true
				}
			}
			return false
		})
		slices.Sort(s.rest)
		for i := range s.runs {
			r := &s.runs[i]
			times := ts[f.Lo[r.From]:f.Hi[r.From]]
			r.Times = exact.NewTimes(times, f.Span.Origin(times[0], r.From, predict), &known[r.From])
		}
	})
	return f.strides.list()
}

// Origin is the time that lines through the samples of step k's window, the first of which is at the
// given time, count from.
func (s *Span) Origin(first int64, k int, predict bool) int64 {
	if predict {
		return s.Grid.At(k)
	}
	return first
}
