package frame

import (
	"slices"

	"github.com/promwarp/promwarp/cpuexec/exact"
)

// Stride is a run of steps whose windows have equally many samples and begin equally far from each
// other, in samples, of which they share many. Or it is a bunch of steps anywhere whose windows have
// equally many samples, two at least.
type Stride struct {
	From, To, Every int // steps, and samples from one to the next, of a run
	Samples         int
	Steps, Firsts   []int32 // of a bunch, and the indices of their windows' first samples
}

// Number is that of the steps.
func (s *Stride) Number() int { return s.To - s.From + len(s.Steps) }

// Step is the i-th step.
func (s *Stride) Step(i int) int {
	if s.Steps != nil {
		return int(s.Steps[i])
	}
	return s.From + i
}

// strides are all of a frame.
type strides struct {
	runs  []Stride
	rest  []int32 // the other steps with samples
	lists []int32 // memory of bunches
}

// Strides returns f's strides, and the other steps with samples: nil for all.
func (f *Frame) Strides() ([]Stride, []int32) {
	f.stridesMade.Do(func() { f.strides.find(&f.Bounds) })
	return f.strides.list()
}

// Bunches returns f's strides and bunches of the other steps, where the windows of these share many samples,
// and what steps are left: nil for all. Samples that come late have windows of one more or less.
func (f *Frame) Bunches() ([]Stride, []int32) {
	f.bunchesMade.Do(func() {
		f.Strides()
		f.bunches.bunch(&f.Bounds, &f.strides)
	})
	return f.bunches.list()
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

const (
	// mostBunched is how many samples windows in bunches have at most.
	mostBunched = 1 << 10
	// bunchSamples is about how many samples the windows of a bunch have together, so that they stay in the
	// nearest cache.
	bunchSamples = 2048
)

// bunch finds the bunches of the windows of b that are in no stride of.
func (s *strides) bunch(b *Bounds, of *strides) {
	s.runs, s.rest = append(s.runs[:0], of.runs...), slices.Grow(s.rest[:0], 1)
	var counts [mostBunched + 2]int32 // of windows with fewer samples, and then with as many, too
	total, n := 0, len(of.rest)
	for _, k := range of.rest {
		samples := b.Hi[k] - b.Lo[k]
		total += int(samples)
		counts[min(samples, mostBunched)+1]++
	}
	if n < exact.LeastRows || total < 2*int(b.Hi[of.rest[n-1]]-b.Lo[of.rest[0]]) || !exact.CanAbreast() {
		s.rest = append(s.rest, of.rest...)
		return
	}
	for i := range counts[1:] {
		counts[i+1] += counts[i]
	}
	s.lists = slices.Grow(s.lists[:0], 2*n)[:2*n]
	steps, firsts := s.lists[:n], s.lists[n:]
	for _, k := range of.rest {
		at := &counts[min(b.Hi[k]-b.Lo[k], mostBunched)]
		steps[*at], firsts[*at] = k, b.Lo[k]
		*at++
	}
	for from, samples := 0, 0; from < n; samples++ {
		for end := int(counts[samples]); from < end; {
			to := min(end, from+max(2*exact.LeastRows, bunchSamples/max(samples, 1)))
			if end-to < exact.LeastRows {
				to = end
			}
			if to-from < exact.LeastRows || samples < 2 || samples == mostBunched {
				s.rest = append(s.rest, steps[from:to]...)
			} else {
				s.runs = append(s.runs, Stride{Samples: samples, Steps: steps[from:to], Firsts: firsts[from:to]})
			}
			from = to
		}
	}
	slices.Sort(s.rest)
}
