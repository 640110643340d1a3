package table

import (
	"io"
	"reflect"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// parquetCells is how many cells a row group has at most, unless one batch has more. Tests lower it.
var parquetCells = 1 << 20

// cellBytes is about the memory that a cell of a row group takes: pages that wait for its end, and what
// they are made from.
const cellBytes = 16

// prepareParquet returns what writes a table as a Parquet file: a row group for some batches.
func prepareParquet(t *Table, isWide bool) (func(io.Writer) error, int64, error) {
	return t.prepare(isWide, recordFormat{mostWide: 1_000, held: parquetCells, newWriter: newParquet})
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

// parquetWriter writes record batches to row groups of a Parquet file.
type parquetWriter struct {
	*parquet.GenericWriter[any]
	scratch []parquet.Value // of a column
	cells   int             // of the row group
}

func newParquet(to io.Writer, schema *arrow.Schema, rows int) recordWriter {
	root := parquetRoot{Group: parquet.Group{}}
	// One codec for all columns: each has tables of its own.
	value := parquet.Compressed(parquet.Optional(parquet.Leaf(parquet.DoubleType)), &zstd.Codec{Level: zstd.SpeedFastest})
	for _, f := range schema.Fields() {
		column := parquetColumn{f.Name, value}
		switch f.Type.ID() {
		case arrow.TIMESTAMP:
			column.Node = parquet.Timestamp(parquet.Millisecond)
		case arrow.DICTIONARY:
			column.Node = parquet.Optional(parquet.Encoded(parquet.String(), &parquet.RLEDictionary))
		}
		root.Group[f.Name] = column.Node
		root.fields = append(root.fields, column)
	}
	options := []parquet.WriterOption{parquet.NewSchema("answer", root), parquet.PageBufferSize(8 * rows)}
	for name, text := range schema.Metadata().ToMap() {
		options = append(options, parquet.KeyValueMetadata(name, text))
	}
	return &parquetWriter{GenericWriter: parquet.NewGenericWriter[any](to, options...)}
}

// Write implements recordWriter.
func (p *parquetWriter) Write(b arrow.RecordBatch) error {
	for k, column := range p.ColumnWriters() {
		p.scratch = appendParquet(p.scratch[:0], b.Column(k), k)
		if _, err := column.WriteRowValues(p.scratch); err != nil {
			return err
		}
	}
	if p.cells += int(b.NumRows() * b.NumCols()); p.cells < parquetCells {
		return nil
	}
	p.cells = 0
	return p.Flush() // the row group
}

// appendParquet appends the values of the column in a place, to which they refer.
func appendParquet(to []parquet.Value, column arrow.Array, place int) []parquet.Value {
	null := parquet.NullValue().Level(0, 0, place)
	switch c := column.(type) {
	case *array.Timestamp:
		for _, t := range c.Values() {
			to = append(to, parquet.Int64Value(int64(t)).Level(0, 0, place))
		}
	case *array.Dictionary:
		texts, codes := c.Dictionary().(*array.String), c.Indices().(*array.Int32)
		for i, code := range codes.Int32Values() {
			value := null
			if codes.IsValid(i) {
				text := texts.Value(int(code))
				value = parquet.ByteArrayValue(unsafe.Slice(unsafe.StringData(text), len(text))).Level(0, 1, place)
			}
			to = append(to, value)
		}
	case *array.Float64:
		for i, v := range c.Float64Values() {
			value := null
			if c.IsValid(i) {
				value = parquet.DoubleValue(v).Level(0, 1, place)
			}
			to = append(to, value)
		}
	}
	return to
}
