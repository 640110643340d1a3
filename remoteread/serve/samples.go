package serve

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/cpuexec/decode"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/selection"
)

// samples answers req with times and values. Nothing is sent before all is known, as a
// status must say what goes wrong, and lengths come before what they are of. It is held
// compressed, in a lease of memory but without a slot of the queue while it is sent.
func (j *job) samples(ctx context.Context, w *response, req *prompb.ReadRequest) error {
	c := coders.Get().(*coder)
	defer coders.Put(c)
	s := &sampler{job: j, coder: c, lease: j.h.o.Memory.Lease(memory.Answers)}
	defer s.lease.Release()
	defer s.point.Leave()
	parts := [][]byte{nil} // the first is for the size
	var size int64
	for _, q := range req.Queries {
		s.parts, s.size, s.count = nil, 0, 0
		if err := j.query(ctx, q, func(f found) error { return s.collect(ctx, f) }); err != nil {
			return err
		}
		head := binary.AppendUvarint([]byte{tagResults}, uint64(s.size))
		element := append([]byte{byte(len(head)-1) << 2}, head...) // which goes as it is
		parts = append(append(parts, element), s.parts...)
		size += int64(len(head)) + s.size
	}
	if size > math.MaxUint32 { // more than snappy has a number for
		return refuse("the answer of samples would be %d bytes and cannot be more than %d; ask for chunks, or for less", size, uint32(math.MaxUint32))
	}
	j.slot.Leave()
	s.point.Leave()
	parts[0] = binary.AppendUvarint(nil, uint64(size))
	length := 0
	for _, p := range parts {
		length += len(p)
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.Header().Set("Content-Encoding", "snappy")
	w.Header().Set("Content-Length", strconv.Itoa(length))
	for _, p := range parts {
		if _, err := w.Write(p); err != nil {
			return err
		}
	}
	w.flush()
	return nil
}

// sampler makes the results of queries, one after another.
type sampler struct {
	*job
	*coder
	lease *memory.Lease // of what is held of the answer
	parts [][]byte      // of the present query's result, compressed
	size  int64         // bytes that they stand for
	count int64         // samples of the present query
	point parallel.Watch
}

// messageBytes is how many bytes of series are compressed together, or more of the last one.
const messageBytes = 256 << 10

// collect adds what a query found.
func (s *sampler) collect(ctx context.Context, f found) error {
	limit := int64(s.h.o.SampleLimit)
	s.message = s.message[:0]
	err := f.each(ctx, s.external, func(one series, chunks []selection.Chunk) error {
		s.point.Pass()
		n, err := s.coder.series(f, one, chunks)
		if err != nil {
			return err
		}
		if s.count += int64(n); s.count > limit && limit > 0 {
			return refuse("exceeded sample limit (%d)", limit)
		}
		if n > 0 || f.onlyLabels {
			s.endSeries()
		}
		if len(s.message) < messageBytes {
			return nil
		}
		return s.compress(ctx)
	})
	if err != nil {
		return err
	}
	return s.compress(ctx)
}

// compress adds the series of the message to the result.
func (s *sampler) compress(ctx context.Context) error {
	if len(s.message) == 0 {
		return nil
	}
	part := s.elements()
	s.parts, s.size = append(s.parts, part), s.size+int64(len(s.message))
	s.message = s.message[:0]
	return s.lease.Grow(ctx, int64(len(part)))
}

// An answer of samples is one message, compressed as a whole:
//
//	ReadResponse
//	  QueryResult results = 1            for each query
//	    TimeSeries timeseries = 1        for each series
//	      Label labels = 1
//	      Sample samples = 2             double value = 1, int64 timestamp = 2
//	      Histogram histograms = 4
const (
	tagResults    = 1<<3 | 2
	tagTimeseries = 1<<3 | 2
	tagSamples    = 2<<3 | 2
	tagHistograms = 4<<3 | 2
	tagSampleV    = 1<<3 | 1
	tagSampleT    = 2 << 3
)

// coders are used again by other requests.
var coders = sync.Pool{New: func() any { return new(coder) }}

// coder encodes series as TimeSeries, one after another, and compresses them.
type coder struct {
	decoded    decode.Buffer
	labels     []prompb.Label
	reuse      chunkenc.Iterator
	floats     []byte // of the present series: labels and Samples
	histograms []byte // and Histograms
	message    []byte // all series so far
	compressed []byte
}

// series encodes the samples of chunks of one within the range of f and returns how many they are. For
// a reader that looks at labels alone, it encodes none, as a Prometheus does.
func (c *coder) series(f found, one series, chunks []selection.Chunk) (n int, err error) {
	c.labels = prompb.FromLabels(one.labels, c.labels[:0])
	head := prompb.TimeSeries{Labels: c.labels}
	n = head.Size()
	c.floats = slices.Grow(c.floats[:0], n)[:n]
	if _, err := head.MarshalToSizedBuffer(c.floats); err != nil {
		return 0, err
	}
	n = 0
	c.histograms = c.histograms[:0]
	switch {
	case f.onlyLabels:
		return 0, nil
	case allFloats(chunks):
		times, values, err := within(&c.decoded, f, one, chunks)
		for k, t := range times {
			c.floats = appendSample(c.floats, t, values[k])
		}
		return len(times), err
	}
	c.reuse = one.sel.Decode(one.i, chunks, f.mint, f.maxt, c.reuse)
	for v := c.reuse.Next(); v != chunkenc.ValNone; v = c.reuse.Next() {
		n++
		switch v {
		case chunkenc.ValFloat:
			t, f := c.reuse.At()
			c.floats = appendSample(c.floats, t, f)
		case chunkenc.ValHistogram:
			err = c.addHistogram(prompb.FromIntHistogram(c.reuse.AtHistogram(nil)))
		default:
			err = c.addHistogram(prompb.FromFloatHistogram(c.reuse.AtFloatHistogram(nil)))
		}
		if err != nil {
			return n, err
		}
	}
	return n, c.reuse.Err()
}

// allFloats reports whether no chunk holds histograms.
func allFloats(chunks []selection.Chunk) bool {
	for i := range chunks {
		if e := chunks[i].Enc; e != chunkenc.EncXOR && e != chunkenc.EncXOR2 {
			return false
		}
	}
	return true
}

// usualOfSample is how many bytes a Sample takes as a field that is not 0 and whose time takes
// 6 bytes as a varint: from 1971 to 2109.
const usualOfSample = 2 + 1 + 8 + 1 + 6

// appendSample appends a Sample as a field. Other than Prometheus it writes -0, which
// protobuf leaves out in Prometheus's own encoding as if it were 0.
func appendSample(b []byte, t int64, v float64) []byte {
	value := math.Float64bits(v)
	if uint64(t)>>35 != 0 && uint64(t)>>42 == 0 && value != 0 {
		k := len(b)
		b = append(b, make([]byte, usualOfSample)...)
		s := b[k:]
		s[0], s[1], s[2], s[11] = tagSamples, usualOfSample-2, tagSampleV, tagSampleT
		binary.LittleEndian.PutUint64(s[3:], value)
		binary.LittleEndian.PutUint32(s[12:], uint32(t&0x7f|t<<1&0x7f00|t<<2&0x7f0000|t<<3&0x7f000000)|0x80808080)
		s[16], s[17] = byte(t>>28)|0x80, byte(t>>35)
		return b
	}
	var sample [usualOfSample + binary.MaxVarintLen64]byte
	m := sample[:0]
	if value != 0 {
		m = binary.LittleEndian.AppendUint64(append(m, tagSampleV), value)
	}
	if t != 0 {
		m = binary.AppendUvarint(append(m, tagSampleT), uint64(t))
	}
	return append(append(b, tagSamples, byte(len(m))), m...)
}

func (c *coder) addHistogram(h prompb.Histogram) error {
	data, err := h.Marshal()
	if err != nil {
		return err
	}
	c.histograms = append(c.histograms, tagHistograms)
	c.histograms = binary.AppendUvarint(c.histograms, uint64(len(data)))
	c.histograms = append(c.histograms, data...)
	return nil
}

// endSeries adds the present series to the message.
func (c *coder) endSeries() {
	c.message = binary.AppendUvarint(append(c.message, tagTimeseries), uint64(len(c.floats)+len(c.histograms)))
	c.message = append(append(c.message, c.floats...), c.histograms...)
}

// elements are what the message is compressed to. In snappy's format the number of all bytes comes first,
// then any sequence of elements: those of several messages may be put together, and anything may be put
// before them once its content is known.
func (c *coder) elements() []byte {
	c.compressed = s2.EncodeSnappy(c.compressed[:cap(c.compressed)], c.message)
	_, header := binary.Uvarint(c.compressed)
	return slices.Clone(c.compressed[header:])
}
