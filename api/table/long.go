package table

// long makes batches of a table's long layout: a row for each time of a series.
type long struct {
	t    *Table
	dict *dictionaries
	rows int // of a batch, at most
	b    batch
}

// longRows is how many rows there are in the long layout, and a batch has, at most.
func (t *Table) longRows(labels int) (all, batch int) {
	for i := range t.Series {
		for k := range t.Series[i].Cells {
			all += len(t.Series[i].Cells[k].Values)
		}
	}
	return all, max(1, min(all, longCells/(1+labels+len(t.Columns))))
}

// longBytes is about the memory of the batches of the long layout.
func (t *Table) longBytes(d *dictionaries) int64 {
	_, batch := t.longRows(len(d.names))
	return d.bytes() + int64(batch)*int64(8+5*len(d.names)+9*len(t.Columns))
}

// write writes all rows.
func (l *long) write(to batchWriter) error {
	_, l.rows = l.t.longRows(len(l.dict.names))
	l.b.times = make([]int64, 0, l.rows)
	l.b.labels, l.b.columns = make([]codes, len(l.dict.names)), make([]floats, len(l.t.Columns))
	for k := range l.b.labels {
		l.b.labels[k].index = make([]int32, 0, l.rows)
	}
	for k := range l.b.columns {
		l.b.columns[k].values = make([]float64, 0, l.rows)
	}
	for i := range l.t.Series {
		write := l.runs
		if !l.t.Series[i].aligned() {
			write = l.cells
		}
		if err := write(to, i); err != nil {
			return err
		}
	}
	if len(l.b.times) > 0 {
		if err := l.flush(to); err != nil {
			return err
		}
	}
	return to.close()
}

// runs writes a series whose columns all have cells at the same times.
func (l *long) runs(to batchWriter, series int) error {
	cells, at := l.t.Series[series].Cells, 0
	for _, run := range cells[0].Runs {
		for times := l.t.Times[run.First : run.First+run.Len]; len(times) > 0; {
			n := min(len(times), l.rows-len(l.b.times))
			for c := range cells {
				l.b.columns[c].append(cells[c].Values[at:at+n], l.t.Nullable)
			}
			if err := l.add(to, series, times[:n]); err != nil {
				return err
			}
			times, at = times[n:], at+n
		}
	}
	return nil
}

// cells writes any other series.
func (l *long) cells(to batchWriter, series int) error {
	s := &l.t.Series[series]
	return s.rows(func(time int32, at []int) error {
		row := len(l.b.times)
		for c, place := range at {
			v := 0.0
			if place >= 0 {
				v = s.Cells[c].Values[place]
			}
			f := &l.b.columns[c]
			f.values = append(f.values, v)
			f.set(row, row+1, place < 0 || l.t.isNull(v))
		}
		return l.add(to, series, l.t.Times[time:time+1])
	})
}

// add adds the times and labels of rows of a series, and writes the batch if that is full.
func (l *long) add(to batchWriter, series int, times []int64) error {
	l.b.times = append(l.b.times, times...)
	for k, code := range l.dict.of(series) {
		l.b.labels[k].append(code, len(times))
	}
	if len(l.b.times) < l.rows {
		return nil
	}
	return l.flush(to)
}

// flush writes the batch and empties it; its memory is used again.
func (l *long) flush(to batchWriter) error {
	err := to.write(&l.b)
	l.b.times = l.b.times[:0]
	for k := range l.b.labels {
		c := &l.b.labels[k]
		c.index, c.n = c.index[:0], 0
	}
	for k := range l.b.columns {
		f := &l.b.columns[k]
		f.values, f.n = f.values[:0], 0
	}
	return err
}
