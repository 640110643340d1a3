package resample

import "github.com/promwarp/promwarp/internal/parallel"

// fillAll fills the buckets without samples of all rows.
func (r *run) fillAll() error {
	if r.Fill.Filling == FillNone {
		return nil
	}
	parallel.While(r.workers, len(r.result.Series), func(_, i int) bool {
		rows := r.result.Series[i].Rows
		for k := range rows {
			first, end := r.filled(rows[k].Buckets)
			n := end - first - len(rows[k].Values)
			if n == 0 {
				continue
			}
			bytes := 8 * int64(n)
			if cap(rows[k].Values) < end-first {
				bytes = rowBytes(end - first)
			}
			if r.hold(n) != nil || r.budget.Charge(bytes) != nil {
				return false // what failed shows below
			}
			rows[k] = r.fill(rows[k], r.result.whole[first:end])
		}
		return r.ctx.Err() == nil
	})
	return r.failed()
}

// filled is which buckets a row has once it is filled, of which it now has some.
func (r *run) filled(has []int32) (first, end int) {
	n := r.Grid.N()
	switch {
	case r.Fill.Filling == FillNull || r.Fill.Filling == FillNumber:
		return 0, n
	case len(has) == 0:
		return 0, 0
	case r.Fill.Filling == FillLinear:
		n = int(has[len(has)-1]) + 1
	}
	return int(has[0]), n
}

// fill returns a row of the given buckets, which follow one another, from one that has some: in its
// memory if there is room. It goes backwards, so that no value is overwritten before it was moved.
func (r *run) fill(row Row, buckets []int32) Row {
	out := Row{buckets, row.Values}
	if cap(row.Values) < len(buckets) {
		out.Values = make([]float64, len(buckets))
	}
	out.Values = out.Values[:len(buckets)]
	left := len(row.Buckets) // values that were not moved
	behind := 0.0            // the one that was moved last
	for i := len(buckets) - 1; i >= 0; i-- {
		k := buckets[i]
		if left > 0 && row.Buckets[left-1] == k {
			left--
			behind = row.Values[left]
			out.Values[i] = behind
			continue
		}
		switch r.Fill.Filling {
		case FillNull:
			out.Values[i] = Null
		case FillNumber:
			out.Values[i] = r.Fill.Number
		case FillPrev:
			out.Values[i] = row.Values[left-1]
		case FillLinear:
			out.Values[i] = r.between(row.Buckets[left-1:left+1], row.Values[left-1], behind, k)
		}
	}
	return out
}

// between is the value at bucket k on the line between two others, which have the values a and b.
func (r *run) between(buckets []int32, a, b float64, k int32) float64 {
	if a == b {
		return a
	}
	at := func(k int32) float64 { return float64(r.Grid.Labels[k]) }
	from, to := at(buckets[0]), at(buckets[1])
	return a + float64((b-a)*((at(k)-from)/(to-from)))
}
