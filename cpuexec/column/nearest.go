package column

import (
	"math"
	"sort"
)

// Nearest says of moments at equal distances how many samples are not later (Count), and by how
// many ms the last of these comes before the moment (Before) and the next one after it (After).
// What is further than Farthest, or not there, is that far.
//
//	                 Before     After
//	               |<------>|<-------->|
//	----x------x---x--------|----------x------> time
//	                        moment, Count 3
type Nearest struct{ Count, Before, After []int32 }

// Farthest is the most that Nearest says of a distance, ms.
const Farthest = math.MaxInt32

// Part is that of the moments from from to to, the end excluded.
func (n Nearest) Part(from, to int) Nearest {
	return Nearest{n.Count[from:to], n.Before[from:to], n.After[from:to]}
}

// set fills in what is known of the moment k, which is at: how many samples are not later, and
// the times of those around it.
func (n Nearest) set(k int, at int64, count int32, before, after int64) {
	n.Count[k], n.Before[k], n.After[k] = count, int32(min(at-before, Farthest)), int32(min(after-at, Farthest))
}

// Nearest fills out with what is nearest to the moments at, at+interval and so on (ms), which must
// be between -1<<61 and 1<<61. It reports false, and fills in nothing, where NotAfter and Since are
// no slower.
func (r Runs) Nearest(at, interval int64, out Nearest) bool {
	const most = 1 << 30 // ms
	if r.Late == nil || interval >= most || !hasNearest() {
		return false
	}
	for i := range r.Even {
		if r.Even[i].Every >= most {
			return false
		}
	}
	k, before, n := 0, int64(-2*far), len(out.Count)
	for i := range r.Even {
		e := &r.Even[i]
		first, last := r.At(i, e.From), r.At(i, e.To-1)
		for ; k < n && at < first; k++ {
			out.set(k, at, e.From, before, first)
			at += interval
		}
		if k < n && at < last {
			m := int(min(int64(n-k), (last-1-at)/interval+1))
			r.within(i, at, interval, out.Part(k, k+m))
			k += m
			at += int64(m) * interval
		}
		before = last
	}
	for total := int32(r.Len()); k < n; k++ {
		out.set(k, at, total, before, 2*far)
		at += interval
	}
	return true
}

// within is Nearest for moments that are not before the first sample of run i, and before the last.
func (r Runs) within(i int, at, interval int64, out Nearest) {
	e := &r.Even[i]
	since, n := at-e.First, len(out.Count)
	for k := 0; k < n; {
		// nearestLate looks at the samples from the one before that which is due, to the second behind.
		if since >= e.Every {
			m := int(min(int64(n-k), (int64(e.To-2-e.From)*e.Every-1-since)/interval+1))
			if m >= nearestLanes {
				m = nearestLate(out.Part(k, k+m), r.Late, e, since, interval)
				k += m
				since += int64(m) * interval
				continue
			}
		}
		j := e.From + int32(since/e.Every)
		if int64(r.Late[j]) <= since%e.Every {
			j++
		}
		out.set(k, e.First+since, j, r.At(i, j-1), r.At(i, j))
		since += interval
		k++
	}
}

// Apart fills out with how many seconds lie between the last two of the first to[k] samples; where
// there are no two it leaves out as it is. The list to never falls.
func (r Runs) Apart(to []int32, out []float64) {
	k := sort.Search(len(to), func(k int) bool { return to[k] >= 2 })
	for i := range r.Even {
		e := &r.Even[i]
		for ; k < len(to) && to[k] == e.From+1; k++ { // the last but one is of the run before
			out[k] = float64(r.At(i, e.From)-r.At(i-1, e.From-1)) / 1000
		}
		end := k + sort.Search(len(to)-k, func(n int) bool { return to[k+n] > e.To })
		switch {
		case r.Late != nil:
			k += apartLate(out[k:end], to[k:end], r.Late, e.Every)
		default:
			for every := float64(e.Every) / 1000; k < end; k++ {
				out[k] = every
			}
		}
		for ; k < end; k++ {
			out[k] = float64(r.At(i, to[k]-1)-r.At(i, to[k]-2)) / 1000
		}
	}
}
