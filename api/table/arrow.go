package table

import (
	"bufio"
	"encoding/json"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/promwarp/promwarp/api/encode"
)

// TimeColumn is the column of times in Arrow and Parquet.
const TimeColumn = "time"

// labelType is the type of columns of labels: the same in all answers, so that they can be joined.
var labelType = &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}

var timeField = arrow.Field{Name: TimeColumn, Type: arrow.FixedWidthTypes.Timestamp_ms}

// prepareArrow returns what writes a table as an Arrow stream: a schema, the dictionaries of
// labels, and record batches.
func prepareArrow(t *Table, isWide bool) (func(io.Writer) error, int64, error) {
	if isWide {
		w, err := newWide(t, maxWideArrow)
		if err != nil {
			return nil, 0, err
		}
		fields := []arrow.Field{timeField}
		for k := range w.columns {
			c := &w.columns[k]
			fields = append(fields, arrow.Field{
				Name: c.name, Type: arrow.PrimitiveTypes.Float64, Nullable: true,
				Metadata: arrow.NewMetadata([]string{"labels", "column"}, []string{string(encode.AppendLabels(nil, c.labels)), c.of}),
			})
		}
		return arrowTo(t, fields, nil, w.write), w.bytes() + outBytes, nil
	}
	d, err := t.longColumns()
	if err != nil {
		return nil, 0, err
	}
	fields := []arrow.Field{timeField}
	for _, name := range d.names {
		fields = append(fields, arrow.Field{Name: name, Type: labelType, Nullable: true})
	}
	for _, name := range t.Columns {
		fields = append(fields, arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Float64, Nullable: true})
	}
	l := &long{t: t, dict: d}
	return arrowTo(t, fields, d, l.write), t.longBytes(d) + outBytes, nil
}

// outBytes is how many bytes of an Arrow stream are collected before they are written: many columns
// are a few KiB, and each write is a call of the system. Longer pieces are not copied.
const outBytes = 64 << 10

// arrowTo returns what writes an Arrow stream of the batches that write makes.
func arrowTo(t *Table, fields []arrow.Field, d *dictionaries, write func(batchWriter) error) func(io.Writer) error {
	return func(to io.Writer) error {
		out := bufio.NewWriterSize(to, outBytes)
		if err := write(newArrow(out, t, fields, d)); err != nil {
			return err
		}
		return out.Flush()
	}
}

// longColumns are the columns of labels of the long layout. Errors are a *resample.Error.
func (t *Table) longColumns() (*dictionaries, error) {
	if err := t.checkNumbers(); err != nil {
		return nil, err
	}
	d := t.dictionaries()
	return d, checkColumns(slices.Concat([]string{TimeColumn}, d.names, t.Columns))
}

// arrowWriter writes batches as record batches of an Arrow stream.
type arrowWriter struct {
	schema *arrow.Schema
	dict   []*array.String
	w      *ipc.Writer
}

func newArrow(to io.Writer, t *Table, fields []arrow.Field, d *dictionaries) *arrowWriter {
	metadata := t.metadata()
	a := &arrowWriter{schema: arrow.NewSchema(fields, &metadata)}
	if d != nil {
		for _, values := range d.values {
			b := array.NewStringBuilder(memory.DefaultAllocator)
			b.AppendValues(values, nil)
			a.dict = append(a.dict, b.NewStringArray())
		}
	}
	a.w = ipc.NewWriter(to, ipc.WithSchema(a.schema))
	return a
}

// metadata are the table's warnings, as a JSON list, if it has any.
func (t *Table) metadata() arrow.Metadata {
	if len(t.Warnings) == 0 {
		return arrow.Metadata{}
	}
	text, _ := json.Marshal(t.Warnings) // of strings, which has no error
	return arrow.NewMetadata([]string{"warnings"}, []string{string(text)})
}

// buffer is memory that stays the batch's: nothing is copied.
func buffer(bytes []byte) *memory.Buffer { return memory.NewBufferBytes(bytes) }

// arrow is which rows are null in Arrow's form: no buffer where none is.
func (b *nulls) arrow() *memory.Buffer {
	if b.n == 0 {
		return nil
	}
	return buffer(b.bits)
}

func (a *arrowWriter) write(b *batch) error {
	n := len(b.times)
	columns := make([]arrow.Array, 0, 1+len(b.labels)+len(b.columns))
	add := func(data *array.Data) { columns = append(columns, array.MakeFromData(data)) }
	add(array.NewData(timeField.Type, n, []*memory.Buffer{nil, buffer(arrow.Int64Traits.CastToBytes(b.times))}, nil, 0, 0))
	for k := range b.labels {
		c := &b.labels[k]
		index := []*memory.Buffer{c.arrow(), buffer(arrow.Int32Traits.CastToBytes(c.index))}
		add(array.NewDataWithDictionary(labelType, n, index, c.n, 0, a.dict[k].Data().(*array.Data)))
	}
	for k := range b.columns {
		f := &b.columns[k]
		add(array.NewData(arrow.PrimitiveTypes.Float64, n, []*memory.Buffer{f.arrow(), buffer(arrow.Float64Traits.CastToBytes(f.values))}, nil, f.n, 0))
	}
	return a.w.Write(array.NewRecordBatch(a.schema, columns, int64(n)))
}

func (a *arrowWriter) close() error { return a.w.Close() }
