package leaf

import (
	"encoding/binary"
	"math"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
	"google.golang.org/grpc/mem"
)

// wire is codec with buffers. What a sender has encoded goes as it is.
type wire struct{ codec }

// Marshal implements encoding.CodecV2.
func (w wire) Marshal(v any) (mem.BufferSlice, error) {
	if encoded, ok := v.(mem.BufferSlice); ok {
		return encoded, nil
	}
	data, err := w.codec.Marshal(v)
	return mem.BufferSlice{mem.SliceBuffer(data)}, err
}

// Unmarshal implements encoding.CodecV2.
func (w wire) Unmarshal(data mem.BufferSlice, v any) error {
	return w.codec.Unmarshal(data.Materialize(), v)
}

// Tags of fields, a number and a wire type, of what a QueryResponse has series in:
//
//	22 length                             timeseries_batch
//	   0a length                          a series of it; alone it is 12 length, timeseries
//	      0a length  0a 3 job  12 2 db    a label
//	      12 12  09 value  10 time        a sample: 8 bytes of the value, the time as a varint
const (
	timeseriesTag, batchTag, seriesTag  = 0x12, 0x22, 0x0a
	labelTag, sampleTag, histogramTag   = 0x0a, 0x12, 0x22
	nameTag, textTag, valueTag, timeTag = 0x0a, 0x12, 0x09, 0x10
)

// appendField appends a field that has a length.
func appendField[T string | []byte](b []byte, tag byte, data T) []byte {
	return append(binary.AppendUvarint(append(b, tag), uint64(len(data))), data...)
}

// appendLabels appends the labels of a series.
func appendLabels(b []byte, of labels.Labels) []byte {
	var one []byte
	of.Range(func(l labels.Label) {
		one = appendField(appendField(one[:0], nameTag, l.Name), textTag, l.Value)
		b = appendField(b, labelTag, one)
	})
	return b
}

// appendSample appends a sample. Its value is there where it is 0, too: without, -0 would be 0.
func appendSample(b []byte, t int64, v float64) []byte {
	begin := len(b) + 2
	b = append(b, sampleTag, 0, valueTag)
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	b = binary.AppendUvarint(append(b, timeTag), uint64(t))
	b[begin-1] = byte(len(b) - begin)
	return b
}

// buffers are those of messages that were written.
var buffers recycler

// recycler implements mem.BufferPool. Buffers that few messages need go to the garbage collector.
type recycler struct{ pool sync.Pool }

// Get implements mem.BufferPool. The buffer is empty: appending makes it as long as is needed.
func (r *recycler) Get(int) *[]byte {
	if b, ok := r.pool.Get().(*[]byte); ok {
		return b
	}
	return new([]byte)
}

// Put implements mem.BufferPool.
func (r *recycler) Put(b *[]byte) {
	if cap(*b) <= 4*mostBytes {
		*b = (*b)[:0]
		r.pool.Put(b)
	}
}
