package window

import (
	"sort"

	"github.com/prometheus/prometheus/model/value"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
)

// lastSample fills out with the newest sample within the lookback of each step.
// Where that is a stale marker, which stale lists in time order, there is no
// value.
//
//	out[k] = v[j], j the last with ts[j] <= T and ts[j] > T-lookback
//
// Steps before split have packed samples.
func lastSample(fr *frame, in *column.Samples, split int, stale []int32, out dense.Row, sc StepCounts) dense.Counts {
	fr.used.Add(1)
	copy(out.Present, fr.any)
	for k := fr.from; k < split; {
		k += packedLast(out.Values[k:split], &in.Packed, fr.hi[k:split])
		for end := min(k+exact.Lanes, split); k < end; k++ {
			if hi := fr.hi[k]; hi > 0 {
				out.Values[k] = in.Value(hi - 1)
			}
		}
	}
	vals, vs := out.Values[split:fr.to], in.Values
	for k, hi := range fr.hi[split:fr.to] {
		if hi > 0 {
			vals[k] = vs[hi-1]
		}
	}
	points := fr.counts.Points
	k := fr.from
	for _, i := range stale {
		// The first step whose newest sample comes no earlier.
		k += sort.Search(fr.to-k, func(n int) bool { return fr.hi[k+n] > i })
		for ; k < fr.to && fr.hi[k] == i+1; k++ {
			if fr.lo[k] > i {
				continue
			}
			out.Present[k>>6] &^= 1 << (k & 63)
			sc.All[k]--
			sc.Fresh[k]--
			points--
		}
	}
	return dense.Counts{Points: points}
}

// seconds appends the times of samples in seconds to out, keeping stale markers.
func seconds(out []float64, ts []int64, vs []float64) []float64 {
	for k, v := range vs {
		if !value.IsStaleNaN(v) {
			v = float64(ts[k]) / 1000
		}
		out = append(out, v)
	}
	return out
}
