package table

import (
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
)

// longCells and wideCells are how many cells a batch has at most, 8 bytes each, unless one row has
// more: of the long layout few enough to stay in a core's cache until they are written. Tests lower
// them.
var longCells, wideCells = 1 << 17, 1 << 20

// batch is some rows of a table, by column. Its memory is used again once it was written.
type batch struct {
	times   []int64
	labels  []codes  // of each label; none in the wide layout
	columns []floats // of values
}

// codes say which value a label has in each row, by its place in the label's dictionary.
type codes struct {
	index []int32
	nulls
}

// append adds rows of one code, which is -1 for null.
func (c *codes) append(code int32, rows int) {
	first := len(c.index)
	for range rows {
		c.index = append(c.index, max(code, 0))
	}
	c.set(first, first+rows, code < 0)
}

// floats are the cells of a column.
type floats struct {
	values []float64
	nulls
}

// append adds cells, of which stale markers may be null.
func (f *floats) append(values []float64, nullable bool) {
	first := len(f.values)
	f.values = append(f.values, values...)
	if nullable {
		f.setStale(first, values)
		return
	}
	f.set(first, len(f.values), false)
}

// nulls says which rows are null: those whose bit is not set.
type nulls struct {
	n    int    // how many
	bits []byte // of all rows up to the last null at least; nothing where n is 0
}

// set says that the rows from first to before end are null, or that they are not.
func (b *nulls) set(first, end int, null bool) {
	if b.n == 0 && !null {
		return
	}
	if b.n == 0 {
		b.bits = b.bits[:0]
	}
	for had := len(b.bits); had < int(bitutil.BytesForBits(int64(end))); had++ {
		b.bits = append(b.bits, 0xff)
	}
	bitutil.SetBitsTo(b.bits, int64(first), int64(end-first), !null)
	if null {
		b.n += end - first
	}
}

// isNull reports whether a row is null.
func (b *nulls) isNull(row int) bool { return b.n > 0 && !bitutil.BitIsSet(b.bits, row) }

// setStale says of each row from first on whether it is null: whether its value is a stale marker.
func (b *nulls) setStale(first int, values []float64) {
	for k, v := range values {
		b.set(first+k, first+k+1, value.IsStaleNaN(v))
	}
}

// batchWriter writes batches.
type batchWriter interface {
	write(b *batch) error
	close() error
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
		for l := range codes {
			codes[l] = -1
		}
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
