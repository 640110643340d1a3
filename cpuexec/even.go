package cpuexec

// evenRun is a stretch of a list of times at equal distances, as of a target that
// is scraped regularly: sample i of from to to, the end excluded, is at
// first + (i-from)*every.
type evenRun struct {
	from, to     int32
	first, every int64 // ms
}

// last is the time of the run's last sample in ms.
func (r *evenRun) last() int64 { return r.first + int64(r.to-r.from-1)*r.every }

// evenRuns are the runs that a list of times is made of, in their order, without
// gaps between them. Windows over them are found by arithmetic, without a look
// at the times, which would come from memory at several bytes a step.
type evenRuns []evenRun

// minEven is the number of samples that a run must have on average for the runs
// to be worth keeping.
const minEven = 32

// findRuns returns the runs of ts, which ascend, or nil if they are too short.
func findRuns(ts []int64) evenRuns {
	var runs evenRuns
	for from := 0; from < len(ts); {
		if len(runs) > len(ts)/minEven {
			return nil
		}
		runs = append(runs, firstRun(ts, from))
		from = int(runs[len(runs)-1].to)
	}
	return runs
}

// firstRun returns the run that starts with sample from of ts.
func firstRun(ts []int64, from int) evenRun {
	r := evenRun{from: int32(from), to: int32(from + 1), first: ts[from], every: 1}
	if from+1 == len(ts) {
		return r
	}
	r.every = ts[from+1] - ts[from]
	to := from + 2
	for to < len(ts) && ts[to]-ts[to-1] == r.every {
		to++
	}
	r.to = int32(to)
	return r
}

// cut appends the runs of samples from to to, the end excluded, to out, counted
// from there.
func (e evenRuns) cut(from, to int32, out evenRuns) evenRuns {
	for _, r := range e {
		lo, hi := max(r.from, from), min(r.to, to)
		if lo < hi {
			out = append(out, evenRun{lo - from, hi - from, r.first + int64(lo-r.from)*r.every, r.every})
		}
	}
	return out
}

// add appends the runs of ts, the times of the samples behind those of e.
func (e evenRuns) add(ts []int64) evenRuns {
	base := 0
	if n := len(e); n > 0 {
		last := &e[n-1]
		base = int(last.to)
		took := 0
		for took < len(ts) && ts[took] == last.last()+last.every {
			last.to++
			took++
		}
		base, ts = base+took, ts[took:]
	}
	for from := 0; from < len(ts); {
		r := firstRun(ts, from)
		from = int(r.to)
		r.from, r.to = r.from+int32(base), r.to+int32(base)
		e = append(e, r)
	}
	return e
}

// notAfter fills out with the number of samples that are not later than end,
// end+interval and so on (ms). interval must be positive.
func (e evenRuns) notAfter(end, interval int64, out []int32) {
	k := 0
	for i := range e {
		r := &e[i]
		for ; k < len(out) && end < r.first; k++ {
			out[k] = r.from
			end += interval
		}
		last := r.last()
		if k == len(out) || end >= last {
			continue
		}
		n := int(min(int64(len(out)-k), (last-1-end)/interval+1))
		r.within(end-r.first, interval, out[k:k+n])
		k += n
		end += int64(n) * interval
	}
	total := int32(0)
	if len(e) > 0 {
		total = e[len(e)-1].to
	}
	for ; k < len(out); k++ {
		out[k] = total
	}
}

// within does what notAfter does for times within the run; since is how long the
// first of them is after the run's first sample, in ms.
func (r *evenRun) within(since, interval int64, out []int32) {
	at, rest := r.from+int32(since/r.every)+1, since%r.every
	step, more := int32(interval/r.every), interval%r.every
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
		if rest += more; rest >= r.every {
			rest -= r.every
			at++
		}
	}
}

// alike returns how many steps from k on have windows like its: with as many samples,
// as far from the window's ends and from each other. Runs that end before are dropped
// from e, of the samples of b; steps are interval ms apart.
func (b *bounds) alike(k int, e *evenRuns, interval int64) int {
	lo, hi := b.lo[k], b.hi[k]
	for len(*e) > 0 && (*e)[0].to <= lo {
		*e = (*e)[1:]
	}
	if len(*e) == 0 {
		return 1
	}
	r := &(*e)[0]
	if lo <= r.from || hi > r.to || interval%r.every != 0 {
		return 1 // windows begin before the run, or end behind it
	}
	stride := int32(interval / r.every)
	n := min(int((r.to-hi)/stride)+1, b.to-k)
	if n > 1 && b.hi[k+n-1]-hi != int32(n-1)*stride {
		n-- // the next run begins within that window
	}
	return n
}
