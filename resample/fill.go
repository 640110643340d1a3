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
			if n > 0 && (r.hold(n) != nil || r.budget.Charge(rowBytes(end-first)) != nil) {
				return false // what failed shows below
			}
			if n > 0 {
				rows[k] = r.fill(rows[k], r.result.whole[first:end])
			}
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

// fill returns a row of the given buckets, which follow one another, from one that has some.
func (r *run) fill(row Row, buckets []int32) Row {
	out := Row{buckets, make([]float64, len(buckets))}
	next := 0 // in row
	for i, k := range buckets {
		if next < len(row.Buckets) && row.Buckets[next] == k {
			out.Values[i] = row.Values[next]
			next++
			continue
		}
		switch r.Fill.Filling {
		case FillNull:
			out.Values[i] = Null
		case FillNumber:
			out.Values[i] = r.Fill.Number
		case FillPrev:
			out.Values[i] = row.Values[next-1]
		case FillLinear:
			out.Values[i] = r.between(&row, next, k)
		}
	}
	return out
}

// between is the value at bucket k on the line between the values next-1 and next of a row.
func (r *run) between(row *Row, next int, k int32) float64 {
	a, b := row.Values[next-1], row.Values[next]
	if a == b {
		return a
	}
	at := func(k int32) float64 { return float64(r.Grid.Labels[k]) }
	from, to := at(row.Buckets[next-1]), at(row.Buckets[next])
	return a + float64((b-a)*((at(k)-from)/(to-from)))
}
