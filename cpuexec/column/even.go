package column

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

// EvenRuns are the runs that a list of times is made of, in time order, without
// gaps between them. Windows over them are found by arithmetic, without a look
// at the times, which would come from memory at several bytes a step.
type EvenRuns []EvenRun

// At is the time of sample i, ms. The first of the runs ends behind i.
func (e EvenRuns) At(i int32) int64 {
	k := 0
	for e[k].To <= i {
		k++
	}
	return e[k].at(i)
}

// minEven is the number of samples that a run must have on average for the runs
// to be worth keeping.
const minEven = 32

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
			out = append(out, EvenRun{lo - from, hi - from, r.at(lo), r.Every, r.Late})
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
		for took < len(ts) && ts[took] == last.at(last.To) {
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
