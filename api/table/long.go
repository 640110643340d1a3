package table

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec/dense"
)

// longCells is how many cells a batch of the long layout has at most, 8 bytes each, unless one row has
// more: few enough to stay in a core's cache until they are written. Tests lower it.
var longCells = 1 << 17

// long is the long layout: a row for each time of a series.
func (t *Table) long() (*layout, error) {
	d := t.dictionaries()
	if err := checkColumns(slices.Concat([]string{TimeColumn}, d.names, t.Columns)); err != nil {
		return nil, err
	}
	l := &layout{labels: d.values}
	for _, name := range d.names {
		l.fields = append(l.fields, arrow.Field{Name: name, Type: labelType, Nullable: true})
	}
	for _, name := range t.Columns {
		l.fields = append(l.fields, valueField(name, arrow.Metadata{}))
	}
	for i := range t.Series {
		for k := range t.Series[i].Cells {
			l.all += len(t.Series[i].Cells[k].Values)
		}
	}
	l.rows = max(1, min(l.all, longCells/(1+len(l.fields))))
	l.bytes = d.bytes() + int64(l.rows)*int64(8+5*len(d.names)+9*len(t.Columns))
	l.write = func(to *batches) error {
		for i := range t.Series {
			if err := t.Series[i].long(t, d.of(i), to); err != nil {
				return err
			}
		}
		return to.flush()
	}
	return l, nil
}

// long writes the rows of a series, whose labels have the given codes.
func (s *Series) long(t *Table, codes []int32, to *batches) error {
	return t.spans(s, func(time, n int32, values [][]float64) error {
		for times := t.Times[time : time+n]; len(times) > 0; {
			n := min(len(times), to.room())
			to.appendTimes(times[:n])
			for k, code := range codes {
				to.appendLabel(k, code, n)
			}
			for k, of := range values {
				if of == nil {
					to.values[k].AppendNulls(n)
					continue
				}
				to.appendValues(k, of[:n], t.Nullable)
				values[k] = of[n:]
			}
			if times = times[n:]; to.room() == 0 {
				if err := to.flush(); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// dictionaries are the values of labels, and which of them each series has.
type dictionaries struct {
	names  []string
	values [][]string // of each label, in the order of their first series
	codes  []int32    // of each label of each series, by series; -1 where it lacks the label
}

func (t *Table) dictionaries() *dictionaries {
	d := &dictionaries{names: t.names()}
	n := len(d.names)
	d.values, d.codes = make([][]string, n), make([]int32, n*len(t.Series))
	known := make([]map[string]int32, n)
	for l := range known {
		known[l] = map[string]int32{}
	}
	for i := range t.Series {
		if t.Watch.Err() != nil {
			break
		}
		codes := d.of(i)
		dense.Fill(codes, -1)
		at := 0
		t.Series[i].Labels.Range(func(l labels.Label) { // in the order of names
			for d.names[at] != l.Name {
				at++
			}
			code, ok := known[at][l.Value]
			if !ok {
				code = int32(len(d.values[at]))
				known[at][l.Value] = code
				d.values[at] = append(d.values[at], l.Value)
			}
			codes[at] = code
		})
	}
	return d
}

// of are the codes of a series.
func (d *dictionaries) of(series int) []int32 {
	n := len(d.names)
	return d.codes[series*n : (series+1)*n]
}

// bytes is about the memory of the dictionaries.
func (d *dictionaries) bytes() (n int64) {
	n = 4 * int64(len(d.codes))
	for _, values := range d.values {
		n += 100 * int64(len(values))
	}
	return n
}
