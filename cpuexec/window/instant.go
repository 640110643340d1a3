package window

import (
	"sort"

	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

const noPlainInstant = "it looks at stale markers, which plain forms do not see"

// Last is the instant selector, which has no name in PromQL.
var Last = defineUnnamed(&Function{
	WindowFunc: plan.WindowFunc{Name: "last", Instant: true, KeepsName: true},
	NoPlain:    noPlainInstant,
	Fast:       func(s *Evaluator) (int, bool) { return s.newest(), true },
	Reads:      Ends,
	GPU:        abi.Policy{Kernel: abi.ByEnds, Name: "Instant"},
})

// Timestamp is the function timestamp of an instant selector: the time of the
// sample that the selector yields.
var Timestamp = defineUnnamed(&Function{
	WindowFunc: plan.WindowFunc{Name: "timestamp", Instant: true},
	NoPlain:    noPlainInstant,
	Fast:       newestTime,
	Reads:      Ends,
	GPU:        abi.Policy{Kernel: abi.ByEnds, Name: "InstantTime"},
})

// InfoTime is the function of info series: the time of the newest sample, by which the
// series that counts is found.
var InfoTime = defineUnnamed(&Function{
	WindowFunc: plan.WindowFunc{Name: "timestamp", Instant: true, KeepsName: true},
	NoPlain:    noPlainInstant,
	Fast:       newestTime,
	Reads:      Ends,
	NoGPU:      "info series are few",
})

// StartTimestamp is the function start_timestamp of an instant selector: the start
// timestamp of the sample that the selector yields.
var StartTimestamp = defineUnnamed(&Function{
	WindowFunc: plan.WindowFunc{Name: "start_timestamp", Instant: true, StartTime: true},
	NoPlain:    noPlainInstant,
	Fast: func(s *Evaluator) (int, bool) {
		s.seconds = s.in.Starts.Seconds(s.seconds[:0], s.in.Values)
		s.in.Values = s.seconds
		return s.newest(), true
	},
	NoGPU: "kernels do not decode start timestamps",
})

// newestTime is newest of the times of samples, in seconds.
func newestTime(s *Evaluator) (int, bool) {
	fr, ts := s.fr, s.fr.List()
	vals := s.out.Values[fr.From:fr.To]
	for k, hi := range fr.Hi[fr.From:fr.To] {
		if hi > 0 {
			vals[k] = float64(ts[hi-1]) / 1000
		}
	}
	return s.present(), true
}

// newest fills out with the newest sample within the lookback of each step. Where that
// is a stale marker there is no value. It returns the number of steps with one.
//
//	out[k] = v[j], j the last with ts[j] <= T and ts[j] > T-lookback
func (s *Evaluator) newest() (points int) {
	fr, in, split, out := s.fr, &s.in, s.split, s.out
	for k := fr.From; k < split; {
		k += packedLast(out.Values[k:split], &in.Packed, fr.Hi[k:split])
		for end := min(k+exact.Lanes, split); k < end; k++ {
			if hi := fr.Hi[k]; hi > 0 {
				out.Values[k] = in.Value(hi - 1)
			}
		}
	}
	vals, vs := out.Values[split:fr.To], in.Values
	for k, hi := range fr.Hi[split:fr.To] {
		if hi > 0 {
			vals[k] = vs[hi-1]
		}
	}
	return s.present()
}

// present notes at which steps there is a newest sample that is no stale marker, and returns how many
// they are.
func (s *Evaluator) present() (points int) {
	fr, out := s.fr, s.out
	copy(out.Present, fr.Any)
	points = fr.Counts.Points
	k := fr.From
	s.indices = s.in.Stale(fr.Hi[k:fr.To], s.indices[:0])
	for _, i := range s.indices {
		// The first step whose newest sample comes no earlier.
		k += sort.Search(fr.To-k, func(n int) bool { return fr.Hi[k+n] > i })
		for ; k < fr.To && fr.Hi[k] == i+1; k++ {
			if fr.Lo[k] > i {
				continue
			}
			out.Present[k>>6] &^= 1 << (k & 63)
			s.Counts.None(k)
			points--
		}
	}
	return points
}
