package column

// EvenRun is a stretch of a list of times at equal distances, as of a target that
// is scraped regularly: sample i of from to to, the end excluded, is at
// first + (i-from)*every.
type EvenRun struct {
	From, To     int32
	First, Every int64 // ms
}

// last is the time of the run's last sample in ms.
func (r *EvenRun) last() int64 { return r.First + int64(r.To-r.From-1)*r.Every }

// EvenRuns are the runs that a list of times is made of, in time order, without
// gaps between them. Windows over them are found by arithmetic, without a look
// at the times, which would come from memory at several bytes a step.
type EvenRuns []EvenRun

// minEven is the number of samples that a run must have on average for the runs
// to be worth keeping.
const minEven = 32

// findRuns returns the runs of ts, which ascend, or nil if they are too short.
func findRuns(ts []int64) EvenRuns {
	var runs EvenRuns
	for from := 0; from < len(ts); {
		if len(runs) > len(ts)/minEven {
			return nil
		}
		runs = append(runs, firstRun(ts, from))
		from = int(runs[len(runs)-1].To)
	}
	return runs
}

// firstRun returns the run that starts with sample from of ts.
func firstRun(ts []int64, from int) EvenRun {
	r := EvenRun{From: int32(from), To: int32(from + 1), First: ts[from], Every: 1}
	if from+1 == len(ts) {
		return r
	}
	r.Every = ts[from+1] - ts[from]
	to := from + 2
	for to < len(ts) && ts[to]-ts[to-1] == r.Every {
		to++
	}
	r.To = int32(to)
	return r
}

// Cut appends the runs of samples from to to, the end excluded, to out, counted
// from there.
func (e EvenRuns) Cut(from, to int32, out EvenRuns) EvenRuns {
	for _, r := range e {
		lo, hi := max(r.From, from), min(r.To, to)
		if lo < hi {
			out = append(out, EvenRun{lo - from, hi - from, r.First + int64(lo-r.From)*r.Every, r.Every})
		}
	}
	return out
}

// Add appends the runs of ts, the times of the samples behind those of e.
func (e EvenRuns) Add(ts []int64) EvenRuns {
	base := 0
	if n := len(e); n > 0 {
		last := &e[n-1]
		base = int(last.To)
		took := 0
		for took < len(ts) && ts[took] == last.last()+last.Every {
			last.To++
			took++
		}
		base, ts = base+took, ts[took:]
	}
	for from := 0; from < len(ts); {
		r := firstRun(ts, from)
		from = int(r.To)
		r.From, r.To = r.From+int32(base), r.To+int32(base)
		e = append(e, r)
	}
	return e
}

// NotAfter fills out with the number of samples that are not later than end,
// end+interval and so on (ms). interval must be positive.
func (e EvenRuns) NotAfter(end, interval int64, out []int32) {
	k := 0
	for i := range e {
		r := &e[i]
		for ; k < len(out) && end < r.First; k++ {
			out[k] = r.From
			end += interval
		}
		last := r.last()
		if k == len(out) || end >= last {
			continue
		}
		n := int(min(int64(len(out)-k), (last-1-end)/interval+1))
		r.within(end-r.First, interval, out[k:k+n])
		k += n
		end += int64(n) * interval
	}
	total := int32(0)
	if len(e) > 0 {
		total = e[len(e)-1].To
	}
	for ; k < len(out); k++ {
		out[k] = total
	}
}

// within does what NotAfter does for times within the run; since is how long the
// first of them is after the run's first sample, in ms.
func (r *EvenRun) within(since, interval int64, out []int32) {
	at, rest := r.From+int32(since/r.Every)+1, since%r.Every
	step, more := int32(interval/r.Every), interval%r.Every
	if more == 0 {
		for k := range out {
			out[k] = at
			at += step
		}
		return
	}
	for k := range out {
		out[k] = at
		at += step
		if rest += more; rest >= r.Every {
			rest -= r.Every
			at++
		}
	}
}
