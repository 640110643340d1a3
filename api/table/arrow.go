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

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/resample"
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

// recordFormat is a format of record batches.
type recordFormat struct {
	mostWide int // columns of the wide layout
	held     int // cells that the writer holds, at most
	// newWriter returns a writer of batches of the given number of rows at most.
	newWriter func(to io.Writer, schema *arrow.Schema, rows int) recordWriter
}

// prepareArrow returns what writes a table as an Arrow stream: a schema, the dictionaries of
// labels, and record batches.
func prepareArrow(t *Table, isWide bool) (func(io.Writer) error, int64, error) {
	return t.prepare(isWide, recordFormat{mostWide: 10_000, newWriter: func(to io.Writer, schema *arrow.Schema, _ int) recordWriter {
		return ipc.NewWriter(to, ipc.WithSchema(schema))
	}})
}

// prepare returns what writes a table as record batches. Errors are a *resample.Error.
func (t *Table) prepare(isWide bool, f recordFormat) (func(io.Writer) error, int64, error) {
	if t.Text != nil {
		return nil, 0, &resample.Error{
			Code: resample.CodeUnsupported, Field: "format", Text: "the answer is a string, which is no number",
			Hint: "use format=json, csv or ndjson",
		}
	}
	var l *layout
	var err error
	if isWide {
		l, err = t.wide(f.mostWide)
	} else {
		l, err = t.long()
	}
	if err != nil {
		return nil, 0, err
	}
	metadata := t.metadata()
	schema := arrow.NewSchema(append([]arrow.Field{timeField}, l.fields...), &metadata)
	bytes := l.bytes + outBytes + cellBytes*int64(min(f.held, l.all*schema.NumFields()))
	return func(w io.Writer) error {
		out := bufio.NewWriterSize(w, outBytes)
		to := f.newWriter(out, schema, l.rows)
		if err := l.write(newBatches(to, schema, l)); err != nil {
			return err
		}
		if err := to.Close(); err != nil {
			return err
		}
		return out.Flush()
	}, bytes, nil
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
	codes  []int32 // scratch memory for rows
	null   []bool  // rows that are
}

func newBatches(to recordWriter, schema *arrow.Schema, l *layout) *batches {
	reused := recycler{}
	b := &batches{to: to, schema: schema, rows: l.rows, codes: make([]int32, l.rows), null: make([]bool, l.rows)}
	b.times = array.NewTimestampBuilder(reused, timeField.Type.(*arrow.TimestampType))
	for _, values := range l.labels {
		d := array.NewStringBuilder(memory.DefaultAllocator)
		d.AppendValues(values, nil)
		b.dict = append(b.dict, d.NewArray())
		b.labels = append(b.labels, array.NewInt32Builder(reused))
	}
	for range len(l.fields) - len(l.labels) {
		b.values = append(b.values, array.NewFloat64Builder(reused))
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
		b.labels[label].AppendValues(b.codes[:n], b.null[:n])
		return
	}
	codes := b.codes[:n]
	dense.Fill(codes, code)
	b.labels[label].AppendValues(codes, nil)
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
		codes := l.NewArray()
		columns = append(columns, array.NewDictionaryArray(labelType, codes, b.dict[k]))
		codes.Release()
	}
	for _, v := range b.values {
		columns = append(columns, v.NewArray())
	}
	batch := array.NewRecordBatch(b.schema, columns, int64(n))
	defer batch.Release()
	for _, c := range columns {
		c.Release()
	}
	return b.to.Write(batch)
}

// recycler is an allocator of which each batch gets the memory of the one before, by its size in bytes:
// fresh memory takes twice as long to write an answer.
type recycler map[int][][]byte

// Allocate implements memory.Allocator.
func (r recycler) Allocate(size int) []byte {
	if n := len(r[size]); n > 0 {
		b := r[size][n-1]
		r[size] = r[size][:n-1]
		return b
	}
	return make([]byte, size)
}

// Reallocate implements memory.Allocator.
func (r recycler) Reallocate(size int, b []byte) []byte {
	if size <= cap(b) {
		return b[:size]
	}
	larger := r.Allocate(size)
	copy(larger, b)
	r.Free(b)
	return larger
}

// Free implements memory.Allocator.
func (r recycler) Free(b []byte) { r[cap(b)] = append(r[cap(b)], b[:cap(b)]) }
