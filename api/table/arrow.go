package table

import (
	"bufio"
	"encoding/json"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/prometheus/prometheus/model/value"
)

// TimeColumn is the column of times in Arrow and Parquet.
const TimeColumn = "time"

// labelType is the type of columns of labels: the same in all answers, so that they can be joined.
var labelType = &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}

var timeField = arrow.Field{Name: TimeColumn, Type: arrow.FixedWidthTypes.Timestamp_ms}

// outBytes is how many bytes of an Arrow stream are collected before they are written: many columns
// are a few KiB, and each write is a call of the system. Longer pieces are not copied.
const outBytes = 64 << 10

// layout is how a table is divided into record batches.
type layout struct {
	fields []arrow.Field // of the labels and values
	labels [][]string    // the values of each label; none in the wide layout
	all    int           // rows, at most
	rows   int           // of a batch, at most
	bytes  int64         // about its memory, with that of a batch
	write  func(*batches) error
}

// recordWriter writes record batches.
type recordWriter interface {
	Write(arrow.RecordBatch) error
	Close() error
}

// prepareArrow returns what writes a table as an Arrow stream: a schema, the dictionaries of
// labels, and record batches.
func prepareArrow(t *Table, isWide bool) (func(io.Writer) error, int64, error) {
	return t.prepare(isWide, maxWideArrow, 0, func(to io.Writer, schema *arrow.Schema) (recordWriter, error) {
		return ipc.NewWriter(to, ipc.WithSchema(schema)), nil
	})
}

// prepare returns what writes a table as record batches. The wide layout has a most of columns, and the
// writer holds up to so many cells. Errors are a *resample.Error.
func (t *Table) prepare(isWide bool, mostWide, held int, open func(io.Writer, *arrow.Schema) (recordWriter, error)) (func(io.Writer) error, int64, error) {
	err := t.checkNumbers()
	if err != nil {
		return nil, 0, err
	}
	var l *layout
	if isWide {
		l, err = t.wide(mostWide)
	} else {
		l, err = t.long()
	}
	if err != nil {
		return nil, 0, err
	}
	metadata := t.metadata()
	schema := arrow.NewSchema(append([]arrow.Field{timeField}, l.fields...), &metadata)
	return func(w io.Writer) error {
		out := bufio.NewWriterSize(w, outBytes)
		to, err := open(out, schema)
		if err != nil {
			return err
		}
		if err := l.write(newBatches(to, schema, l)); err != nil {
			return err
		}
		if err := to.Close(); err != nil {
			return err
		}
		return out.Flush()
	}, l.bytes + outBytes + cellBytes*int64(min(held, l.all*schema.NumFields())), nil
}

// metadata are the table's warnings, as a JSON list, if it has any.
func (t *Table) metadata() arrow.Metadata {
	if len(t.Warnings) == 0 {
		return arrow.Metadata{}
	}
	text, _ := json.Marshal(t.Warnings) // of strings, which has no error
	return arrow.NewMetadata([]string{"warnings"}, []string{string(text)})
}

// valueField is a column of values.
func valueField(name string, metadata arrow.Metadata) arrow.Field {
	return arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Float64, Nullable: true, Metadata: metadata}
}

// batches writes record batches that are filled column by column.
type batches struct {
	to     recordWriter
	schema *arrow.Schema
	rows   int // of a batch, at most
	times  *array.TimestampBuilder
	labels []*array.Int32Builder // codes, by which the dictionaries have the values
	dict   []arrow.Array         // the values of labels
	values []*array.Float64Builder
	codes  []int32 // scratch memory
}

func newBatches(to recordWriter, schema *arrow.Schema, l *layout) *batches {
	b := &batches{to: to, schema: schema, rows: l.rows, times: array.NewTimestampBuilder(memory.DefaultAllocator, timeField.Type.(*arrow.TimestampType))}
	for _, values := range l.labels {
		d := array.NewStringBuilder(memory.DefaultAllocator)
		d.AppendValues(values, nil)
		b.dict = append(b.dict, d.NewArray())
		b.labels = append(b.labels, array.NewInt32Builder(memory.DefaultAllocator))
	}
	for range len(l.fields) - len(l.labels) {
		b.values = append(b.values, array.NewFloat64Builder(memory.DefaultAllocator))
	}
	return b
}

// room is how many rows fit into the batch. Memory for all of them is taken with the first.
func (b *batches) room() int {
	n := b.times.Len()
	if n == 0 {
		b.times.Reserve(b.rows)
		for _, l := range b.labels {
			l.Reserve(b.rows)
		}
		for _, v := range b.values {
			v.Reserve(b.rows)
		}
	}
	return b.rows - n
}

// appendTimes appends times in ms.
func (b *batches) appendTimes(times []int64) {
	b.times.AppendValues(arrow.TimestampTraits.CastFromBytes(arrow.Int64Traits.CastToBytes(times)), nil)
}

// appendLabel appends n rows of one code of a label, -1 for null.
func (b *batches) appendLabel(label int, code int32, n int) {
	if code < 0 {
		b.labels[label].AppendNulls(n)
		return
	}
	b.codes = b.codes[:0]
	for range n {
		b.codes = append(b.codes, code)
	}
	b.labels[label].AppendValues(b.codes, nil)
}

// appendValues appends cells of a column, of which stale markers may be null.
func (b *batches) appendValues(column int, values []float64, nullable bool) {
	to := b.values[column]
	if !nullable {
		to.AppendValues(values, nil)
		return
	}
	for _, v := range values {
		if value.IsStaleNaN(v) {
			to.AppendNull()
		} else {
			to.Append(v)
		}
	}
}

// flush writes the batch, if it has rows, and begins another.
func (b *batches) flush() error {
	n := b.times.Len()
	if n == 0 {
		return nil
	}
	columns := []arrow.Array{b.times.NewArray()}
	for k, l := range b.labels {
		columns = append(columns, array.NewDictionaryArray(labelType, l.NewArray(), b.dict[k]))
	}
	for _, v := range b.values {
		columns = append(columns, v.NewArray())
	}
	return b.to.Write(array.NewRecordBatch(b.schema, columns, int64(n)))
}
