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
