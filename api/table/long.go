package table

import "slices"

// directRows is how many rows a series has at least to be written as batches of its own: it costs
// less to begin a batch than to copy so many values. Tests lower it.
var directRows = 8 << 10

// long makes batches of a table's long layout: a row for each time of a series.
type long struct {
	t    *Table
	dict *dictionaries
	rows int // of a batch, at most
	b    batch
	s    straight // of the series that is written
}

// straight is a series by column, each with a cell for each of its rows.
type straight struct {
	times  []int64
	values [][]float64
	null   [][]bool // of columns that lack cells; nil where none does

	gathered [][]float64 // memory of values and null, where they are not those of the table
	lacking  [][]bool
	apart    []int64 // and of times
}

// longRows is how many rows there are in the long layout, a batch has, and a series, all at most.
func (t *Table) longRows(labels int) (all, batch, series int) {
	for i := range t.Series {
		n := 0
		for k := range t.Series[i].Cells {
			n += len(t.Series[i].Cells[k].Values)
		}
		all += n
		series = max(series, n)
	}
	return all, max(1, min(all, longCells/(1+labels+len(t.Columns)))), series
}

// longBytes is about the memory of the batches of the long layout.
func (t *Table) longBytes(d *dictionaries) int64 {
	_, batch, series := t.longRows(len(d.names))
	return d.bytes() + int64(batch+series)*int64(8+5*len(d.names)+9*len(t.Columns))
}

// write writes all rows.
func (l *long) write(to batchWriter) error {
	_, l.rows, _ = l.t.longRows(len(l.dict.names))
	l.b.times = make([]int64, 0, l.rows)
	l.b.labels, l.b.columns = make([]codes, len(l.dict.names)), make([]floats, len(l.t.Columns))
	for k := range l.b.labels {
		l.b.labels[k].index = make([]int32, 0, l.rows)
	}
	for k := range l.b.columns {
		l.b.columns[k].values = make([]float64, 0, l.rows)
	}
	for i := range l.t.Series {
		l.straighten(&l.t.Series[i])
		n := len(l.s.times)
		for first := 0; first < n; {
			var err error
			k := 0
			if pending := len(l.b.times); n-first < directRows || pending == l.rows {
				k = min(n-first, l.rows-pending)
				l.append(i, first, first+k)
				if len(l.b.times) == l.rows {
					err = l.flush(to)
				}
			} else if pending > 0 {
				err = l.flush(to)
			} else {
				k = min(n-first, l.rows)
				err = l.direct(to, i, first, first+k)
			}
			if err != nil {
				return err
			}
			first += k
		}
	}
	if len(l.b.times) > 0 {
		if err := l.flush(to); err != nil {
			return err
		}
	}
	return to.close()
}

// straighten makes all columns of a series have a cell for each of its rows. Values that are so
// already are not copied.
func (l *long) straighten(s *Series) {
	k := len(s.Cells)
	l.s.values, l.s.null = slices.Grow(l.s.values[:0], k)[:k], slices.Grow(l.s.null[:0], k)[:k]
	l.s.apart = l.s.apart[:0]
	if s.aligned() {
		runs := s.Cells[0].Runs
		for _, run := range runs {
			times := l.t.Times[run.First : run.First+run.Len]
			if len(runs) == 1 {
				l.s.times = times
				break
			}
			l.s.apart = append(l.s.apart, times...)
			l.s.times = l.s.apart
		}
		if len(runs) == 0 {
			l.s.times = nil
		}
		for c := range s.Cells {
			l.s.values[c], l.s.null[c] = s.Cells[c].Values, nil
		}
		return
	}
	l.s.gathered, l.s.lacking = slices.Grow(l.s.gathered, k)[:k], slices.Grow(l.s.lacking, k)[:k]
	for c := range s.Cells {
		l.s.gathered[c], l.s.lacking[c] = l.s.gathered[c][:0], l.s.lacking[c][:0]
	}
	_ = s.rows(func(time int32, at []int) error { // which does not fail
		l.s.apart = append(l.s.apart, l.t.Times[time])
		for c, place := range at {
			v := 0.0
			if place >= 0 {
				v = s.Cells[c].Values[place]
			}
			l.s.gathered[c] = append(l.s.gathered[c], v)
			l.s.lacking[c] = append(l.s.lacking[c], place < 0)
		}
		return nil
	})
	l.s.times = l.s.apart
	copy(l.s.values, l.s.gathered)
	copy(l.s.null, l.s.lacking)
}

// append copies rows of the series into the batch.
func (l *long) append(series, first, end int) {
	at := len(l.b.times)
	l.b.times = append(l.b.times, l.s.times[first:end]...)
	l.codes(series, at)
	for c := range l.b.columns {
		f := &l.b.columns[c]
		f.values = append(f.values, l.s.values[c][first:end]...)
		l.nulls(f, c, at, first, end)
	}
}

// direct writes rows of the series as a batch that refers to them. No others wait.
func (l *long) direct(to batchWriter, series, first, end int) error {
	l.codes(series, 0)
	l.fill(end - first)
	b := batch{times: l.s.times[first:end], labels: l.b.labels, columns: make([]floats, len(l.b.columns))}
	for c := range b.columns {
		f := &b.columns[c]
		f.bits = l.b.columns[c].bits
		f.values = l.s.values[c][first:end]
		l.nulls(f, c, 0, first, end)
		l.b.columns[c].bits = f.bits
	}
	err := to.write(&b)
	l.reset()
	return err
}

// codes says of rows from at on which labels they have: those of the series.
func (l *long) codes(series, at int) {
	for k, code := range l.dict.of(series) {
		l.b.labels[k].add(code, at)
	}
}

// nulls says which of a column's rows from at on are null: those from first to before end of the
// series.
func (l *long) nulls(f *floats, column, at, first, end int) {
	switch null := l.s.null[column]; {
	case null != nil:
		for k := range null[first:end] {
			v := l.s.values[column][first+k]
			f.set(at+k, at+k+1, null[first+k] || l.t.isNull(v))
		}
	case l.t.Nullable:
		f.setStale(at, l.s.values[column][first:end])
	default:
		f.set(at, at+end-first, false)
	}
}

// fill writes the labels of the rows before end.
func (l *long) fill(end int) {
	for k := range l.b.labels {
		l.b.labels[k].fill(end)
	}
}

func (l *long) flush(to batchWriter) error {
	l.fill(len(l.b.times))
	err := to.write(&l.b)
	l.reset()
	return err
}

// reset empties the batch, whose memory is used again.
func (l *long) reset() {
	l.b.times = l.b.times[:0]
	for k := range l.b.labels {
		c := &l.b.labels[k]
		c.index, c.n = c.index[:0], 0
	}
	for k := range l.b.columns {
		f := &l.b.columns[k]
		f.values, f.n = f.values[:0], 0
	}
}
