// Package answertest makes answers of remote read for the tests of what reads them, and makes what
// was read comparable.
package answertest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net/http/httptest"

	"github.com/gogo/protobuf/proto"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/selection"
)

// Marshal returns the bytes of m.
func Marshal(m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return b
}

// Frames are series as a stream, a frame each.
func Frames(series ...*prompb.ChunkedSeries) []byte {
	var b bytes.Buffer
	w := remote.NewChunkedWriter(&b, httptest.NewRecorder())
	for _, s := range series {
		if _, err := w.Write(Marshal(&prompb.ChunkedReadResponse{ChunkedSeries: []*prompb.ChunkedSeries{s}})); err != nil {
			panic(err)
		}
	}
	return b.Bytes()
}

// Series is a series of one XOR chunk of n samples, 1 s apart.
func Series(start int64, n int, pairs ...string) *prompb.ChunkedSeries {
	s := &prompb.ChunkedSeries{}
	for i := 0; i < len(pairs); i += 2 {
		s.Labels = append(s.Labels, prompb.Label{Name: pairs[i], Value: pairs[i+1]})
	}
	c := chunkenc.NewXORChunk()
	app, err := c.Appender()
	if err != nil {
		panic(err)
	}
	for i := range n {
		app.Append(0, start+int64(i)*1000, float64(i))
	}
	s.Chunks = []prompb.Chunk{{MinTimeMs: start, MaxTimeMs: start + int64(n-1)*1000, Type: prompb.Chunk_XOR, Data: c.Bytes()}}
	return s
}

// RawFrame is data as a frame with a right or a wrong checksum.
func RawFrame(data []byte, right bool) []byte {
	b := binary.AppendUvarint(nil, uint64(len(data)))
	sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	if !right {
		sum++
	}
	return append(binary.BigEndian.AppendUint32(b, sum), data...)
}

// Floats is a series of that name with a sample of value 1 at each of times (ms).
func Floats(name string, times ...int64) *prompb.TimeSeries {
	ts := &prompb.TimeSeries{Labels: []prompb.Label{{Name: "__name__", Value: name}}}
	for _, t := range times {
		ts.Samples = append(ts.Samples, prompb.Sample{Timestamp: t, Value: 1})
	}
	return ts
}

// Chunks is all that is in a selection, in a form that can be compared.
func Chunks(s *selection.Selection) (out []string) {
	for i := range s.NumSeries() {
		out = append(out, s.Labels(i).String())
		for _, c := range s.Chunks(i) {
			out = append(out, fmt.Sprintf("%d to %d: %s, %d samples, %x", c.MinT, c.MaxT, c.Enc, c.Samples, s.Bytes(c)))
		}
	}
	return out
}
