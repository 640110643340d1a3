package column

import (
	"math"
	"slices"
	"sort"

	"github.com/promwarp/promwarp/cpuexec/dense"
)

// Runs are a list of times as runs at even distances, and how far samples are off them. Windows
// over them are found by arithmetic, without a look at the times, which would come from memory at
// several bytes a step.
type Runs struct {
	Even []EvenRun // in time order, without gaps between them
	// Late is by how many ms each sample comes after it is due; nil where none does.
	Late []uint16
}

// far is so large a time in ms, and so large a distance, that sums of times might overflow.
const far = 1 << 61

// findRuns returns the runs of ts, which ascend, or none if they are too short.
func findRuns(ts []int64) Runs {
	var r Runs
	if rest := r.addRuns(ts, len(ts)/minEven); len(rest) == 0 {
		return r
	}
	if ts[0] < -far || ts[len(ts)-1] > far {
		return Runs{}
	}
	r = Runs{Late: make([]uint16, 0, len(ts))}
	if rest := r.addRuns(ts, len(ts)/minEven); len(rest) > 0 {
		return Runs{}
	}
	return r
}

// addRuns adds the runs that ts, the times of further samples, are made of, until they are more
// than most, and returns the times that are left.
func (r *Runs) addRuns(ts []int64, most int) []int64 {
	for len(ts) > 0 && len(r.Even) <= most {
		var e EvenRun
		if r.Late == nil {
			e = evenRun(ts)
		} else {
			e = lateRun(ts)
			for i := range e.To {
				late := ts[i] - e.at(i)
				e.Late = max(e.Late, late)
				r.Late = append(r.Late, uint16(late))
			}
		}
		ts = ts[e.To:]
		e.From = int32(r.Len())
		e.To += e.From
		r.Even = append(r.Even, e)
	}
	return ts
}

// evenRun returns the run that ts begins with.
func evenRun(ts []int64) EvenRun {
	if len(ts) == 1 {
		return EvenRun{To: 1, First: ts[0], Every: 1}
	}
	to, every := 2, ts[1]-ts[0]
	for to < len(ts) && ts[to]-ts[to-1] == every {
		to++
	}
	return EvenRun{To: int32(to), First: ts[0], Every: every}
}

// lateRun returns the run that ts begins with, of samples that come late.
func lateRun(ts []int64) EvenRun {
	if len(ts) == 1 {
		return EvenRun{To: 1, First: ts[0], Every: 1}
	}
	var distances [9]int64
	some := distances[:min(len(distances), len(ts)-1)]
	for i := range some {
		some[i] = ts[i+1] - ts[i]
	}
	slices.Sort(some)
	usual := some[len(some)/2]
	to := 1
	for to < len(ts) && 2*max(ts[to]-ts[to-1]-usual, usual-ts[to]+ts[to-1]) <= usual {
		to++
	}
	n := int64(to - 1)
	every := max(ts[to-1]-ts[0]+n/2, 1) / max(n, 1)
	every = max(every, 1)
	early, late, most := int64(0), int64(0), min(every-1, math.MaxUint16)
	for i := range to {
		off := ts[i] - ts[0] - int64(i)*every
		if max(late, off)-min(early, off) > most {
			to = i
			break
		}
		early, late = min(early, off), max(late, off)
	}
	return EvenRun{To: int32(to), First: ts[0] + early, Every: every}
}

// Add returns r with the runs of ts, the times of the samples behind its own; r is not to be
// used any more.
func (r Runs) Add(ts []int64) Runs {
	if n := len(r.Even); n > 0 {
		last, most := &r.Even[n-1], int64(0)
		if r.Late != nil {
			most = min(last.Every-1, math.MaxUint16)
		}
		for len(ts) > 0 {
			late := ts[0] - last.at(last.To)
			if late < 0 || late > most {
				break
			}
			if r.Late != nil {
				r.Late = append(r.Late, uint16(late))
			}
			ts, last.Late = ts[1:], max(last.Late, late)
			last.To++
		}
	}
	r.addRuns(ts, math.MaxInt)
	return r
}

// Len is the number of samples.
func (r Runs) Len() int {
	if len(r.Even) == 0 {
		return 0
	}
	return int(r.Even[len(r.Even)-1].To)
}

// At is the time of sample i, which is of run k, in ms.
func (r Runs) At(k int, i int32) int64 {
	t := r.Even[k].at(i)
	if r.Late != nil {
		t += int64(r.Late[i])
	}
	return t
}

// append appends the times of samples lo to hi, the end excluded, to out.
func (r Runs) append(out []int64, lo, hi int) []int64 {
	n := len(out)
	out = slices.Grow(out, hi-lo)[:n+hi-lo]
	for k := range r.Even {
		e := &r.Even[k]
		from, to := max(e.From, int32(lo)), min(e.To, int32(hi))
		if from >= to {
			continue
		}
		t, part := e.at(from), out[n+int(from)-lo:n+int(to)-lo]
		if r.Late == nil {
			for i := range part {
				part[i] = t
				t += e.Every
			}
			continue
		}
		late := r.Late[from:to][:len(part)]
		for i := range part {
			part[i] = t + int64(late[i])
			t += e.Every
		}
	}
	return out
}

// Since fills out with by how many ms sample to[k]-before comes after from, from+interval and so on;
// where there is no such sample it leaves out as it is. The list to never falls.
func (r Runs) Since(to []int32, before int32, from, interval int64, out []float64) {
	k := sort.Search(len(to), func(k int) bool { return to[k] >= before })
	for i := range r.Even {
		e := &r.Even[i]
		end := k + sort.Search(len(to)-k, func(n int) bool { return to[k+n] >= e.To+before })
		since := e.at(-before) - from
		if r.Late != nil {
			k += sinceLate(out[k:end], to[k:end], before, r.Late, e.Every, since-int64(k)*interval, interval)
		}
		for ; k < end; k++ {
			t := since + int64(to[k])*e.Every - int64(k)*interval
			if r.Late != nil {
				t += int64(r.Late[to[k]-before])
			}
			out[k] = float64(t)
		}
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
		if r.Late != nil {
			k += apartLate(out[k:end], to[k:end], r.Late, e.Every)
		}
		every := float64(e.Every) / 1000
		for ; k < end; k++ {
			if out[k] = every; r.Late != nil {
				out[k] = float64(e.Every+int64(r.Late[to[k]-1])-int64(r.Late[to[k]-2])) / 1000
			}
		}
	}
}

// Newest fills hi as NotAfter does, and lo with the index of the newest of these samples; where that
// comes width or more before the step, with hi. The first step must have a sample, and samples of a
// run must be at most width apart.
func (r Runs) Newest(end, interval, width int64, lo, hi []int32) {
	r.NotAfter(end, interval, hi)
	for k, n := range hi[:len(lo)] {
		lo[k] = n - 1
	}
	for i := range r.Even { // only the last sample of a run may be that old
		to := r.Even[i].To
		k := int(max(0, r.At(i, to-1)+width-end+interval-1) / interval)
		for ; k < len(hi) && hi[k] == to; k++ {
			lo[k] = to
		}
	}
}

// NotAfter fills out with the number of samples that are not later than end,
// end+interval and so on (ms). interval must be positive.
func (r Runs) NotAfter(end, interval int64, out []int32) {
	k := 0
	for i := range r.Even {
		e := &r.Even[i]
		for ; k < len(out) && end < e.First; k++ {
			out[k] = e.From
			end += interval
		}
		last := r.At(i, e.To-1)
		if k == len(out) || end >= last {
			continue
		}
		n := int(min(int64(len(out)-k), (last-1-end)/interval+1))
		e.notAfter(end-e.First, interval, r.Late, out[k:k+n])
		k += n
		end += int64(n) * interval
	}
	dense.Fill(out[k:], int32(r.Len()))
}

// notAfter is Runs.NotAfter for times within the run; since is how long the
// first of them is after the run's first sample is due, in ms.
func (r *EvenRun) notAfter(since, interval int64, late []uint16, out []int32) {
	at, rest := r.From+int32(since/r.Every), since%r.Every
	step, more := int32(interval/r.Every), interval%r.Every
	switch {
	case more == 0 && rest >= r.Late: // all that are due have come
		at++
		for k := range out {
			out[k] = at
			at += step
		}
	case r.Late == 0:
		at++
		for k := range out {
			out[k] = at
			at += step
			if rest += more; rest >= r.Every {
				rest -= r.Every
				at++
			}
		}
	default:
		for k := range out {
			out[k] = at + int32(uint64(int64(late[at])-rest-1)>>63)
			at += step
			if rest += more; rest >= r.Every {
				rest -= r.Every
				at++
			}
		}
	}
}

// EvenRun is a stretch of a list of times at equal distances, as of a target that
// is scraped regularly: sample i of from to to, the end excluded, is at
// first + (i-from)*every, or after that by less than every: see Runs.
type EvenRun struct {
	From, To     int32
	First, Every int64 // ms
	Late         int64 // the most that a sample comes after that, ms
}

// at is when sample i is due in ms.
func (r *EvenRun) at(i int32) int64 { return r.First + int64(i-r.From)*r.Every }

// minEven is the number of samples that a run must have on average for the runs
// to be worth keeping.
const minEven = 32
