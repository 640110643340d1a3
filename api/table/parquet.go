package table

import (
	"io"
	"reflect"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// parquetCells is how many cells a row group has at most, unless one batch has more. Tests lower it.
var parquetCells = 1 << 20

// rowGroupBytes is about the memory of a row group of a file with so many cells: pages that wait for
// its end, and what they are made from.
func rowGroupBytes(cells int) int64 { return 16 * int64(min(cells, parquetCells)) }

// prepareParquet returns what writes a table as a Parquet file: a row group for some batches.
func prepareParquet(t *Table, isWide bool) (func(io.Writer) error, int64, error) {
	columns := []parquetColumn{{TimeColumn, parquet.Timestamp(parquet.Millisecond)}}
	value := parquet.Compressed(parquet.Optional(parquet.Leaf(parquet.DoubleType)), &zstd.Codec{Level: zstd.SpeedFastest})
	if isWide {
		w, err := newWide(t, maxWideParquet)
		if err != nil {
			return nil, 0, err
		}
		for k := range w.columns {
			columns = append(columns, parquetColumn{w.columns[k].name, value})
		}
		return func(to io.Writer) error { return w.write(newParquet(to, t, columns, nil, w.rows())) }, w.bytes() + rowGroupBytes(len(columns)*len(w.times)), nil
	}
	d, err := t.longColumns()
	if err != nil {
		return nil, 0, err
	}
	for _, name := range d.names {
		columns = append(columns, parquetColumn{name, parquet.Optional(parquet.Encoded(parquet.String(), &parquet.RLEDictionary))})
	}
	for _, name := range t.Columns {
		columns = append(columns, parquetColumn{name, value})
	}
	l := &long{t: t, dict: d}
	all, rows := t.longRows(len(d.names))
	return func(to io.Writer) error { return l.write(newParquet(to, t, columns, d, rows)) }, t.longBytes(d) + rowGroupBytes(len(columns)*all), nil
}

// parquetRoot are the columns of a file in the order of the table; a parquet.Group sorts them.
type parquetRoot struct {
	parquet.Group
	fields []parquet.Field
}

func (r parquetRoot) Fields() []parquet.Field { return r.fields }

// GoType implements parquet.Node. Rows are never written as Go values.
func (r parquetRoot) GoType() reflect.Type { return reflect.TypeFor[struct{}]() }

// parquetColumn is a column, which is a parquet.Field.
type parquetColumn struct {
	name string
	parquet.Node
}

func (c parquetColumn) Name() string { return c.name }

// Value implements parquet.Field. Rows are never written as Go values.
func (c parquetColumn) Value(reflect.Value) reflect.Value { return reflect.Value{} }

// parquetWriter writes batches as row groups of a Parquet file.
type parquetWriter struct {
	w       *parquet.GenericWriter[any]
	dict    [][]parquet.Value // of labels
	scratch []parquet.Value   // of a column
	rows    int               // of the row group
}

func newParquet(to io.Writer, t *Table, columns []parquetColumn, d *dictionaries, rows int) *parquetWriter {
	root := parquetRoot{Group: parquet.Group{}}
	for _, c := range columns {
		root.Group[c.name] = c.Node
		root.fields = append(root.fields, c)
	}
	options := []parquet.WriterOption{parquet.NewSchema("answer", root), parquet.PageBufferSize(8 * rows)}
	if m := t.metadata(); m.Len() > 0 {
		options = append(options, parquet.KeyValueMetadata(m.Keys()[0], m.Values()[0]))
	}
	p := &parquetWriter{w: parquet.NewGenericWriter[any](to, options...), scratch: make([]parquet.Value, 0, rows)}
	if d == nil {
		return p
	}
	for k, values := range d.values {
		of := make([]parquet.Value, len(values))
		for i, text := range values {
			of[i] = parquet.ByteArrayValue([]byte(text)).Level(0, 1, 1+k)
		}
		p.dict = append(p.dict, of)
	}
	return p
}

func (p *parquetWriter) write(b *batch) error {
	columns := p.w.ColumnWriters()
	values := p.scratch[:0]
	for _, ms := range b.times {
		values = append(values, parquet.Int64Value(ms).Level(0, 0, 0))
	}
	if _, err := columns[0].WriteRowValues(values); err != nil {
		return err
	}
	for k := range b.labels {
		c, at := &b.labels[k], 1+k
		values = values[:0]
		for i, code := range c.index {
			if c.isNull(i) {
				values = append(values, parquet.NullValue().Level(0, 0, at))
				continue
			}
			values = append(values, p.dict[k][code])
		}
		if _, err := columns[at].WriteRowValues(values); err != nil {
			return err
		}
	}
	for k := range b.columns {
		f, at := &b.columns[k], 1+len(b.labels)+k
		values = values[:0]
		for i, v := range f.values {
			if f.isNull(i) {
				values = append(values, parquet.NullValue().Level(0, 0, at))
				continue
			}
			values = append(values, parquet.DoubleValue(v).Level(0, 1, at))
		}
		if _, err := columns[at].WriteRowValues(values); err != nil {
			return err
		}
	}
	p.scratch = values
	if p.rows += len(b.times); p.rows*len(columns) < parquetCells {
		return nil
	}
	p.rows = 0
	return p.w.Flush() // the row group
}

func (p *parquetWriter) close() error { return p.w.Close() }
