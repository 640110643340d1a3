package serve

import (
	"context"
	"encoding/binary"
	"math"
	"strconv"

	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/selection"
)

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

// samples answers req with times and values. Nothing is sent before all is known, as a
// status must say what goes wrong, and lengths come before what they are of. It is held
// compressed.
func (j *job) samples(ctx context.Context, w *response, req *prompb.ReadRequest) error {
	s := &sampler{job: j, lease: j.h.o.Memory.Lease(memory.Answers)}
	defer s.lease.Release()
	parts := [][]byte{nil} // the first is for the size
	var size int64
	for _, q := range req.Queries {
		if err := j.query(ctx, q, func(f found) error { return s.collect(ctx, f) }); err != nil {
			return err
		}
		result, n := s.take()
		s.held = 0
		head := binary.AppendUvarint([]byte{tagResults}, uint64(n))
		parts = append(parts, literal(head), result)
		size += int64(len(head)) + n
	}
	if err := checkSnappy(size); err != nil {
		return err
	}
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
	compressor
	lease      *memory.Lease // of what is held of the answer
	held       int64         // bytes of the results of the present query, of the lease
	reuse      chunkenc.Iterator
	n          int    // samples of the present query
	floats     []byte // of the present series: labels and Samples
	histograms []byte // and Histograms
}

// collect adds what a query found.
func (s *sampler) collect(ctx context.Context, f found) error {
	s.n = 0
	if f.onlyLabels {
		// As a Prometheus answers it, which reads no chunks then.
		return f.each(ctx, s.external, func(one series, _ []selection.Chunk) error {
			s.floats, _ = appendLabels(s.floats[:0], one.labels)
			s.histograms = s.histograms[:0]
			return s.endSeries(ctx)
		})
	}
	if err := s.checkCount(f); err != nil {
		return err
	}
	return f.each(ctx, s.external, func(one series, chunks []selection.Chunk) error {
		return s.add(ctx, f, one, chunks)
	})
}

// checkCount refuses what certainly has too many samples before any is decoded: those of
// chunks that are not cut.
func (s *sampler) checkCount(f found) error {
	limit := s.h.o.SampleLimit
	if limit <= 0 || f.sel.NumSamples() <= int64(limit) {
		return nil
	}
	n := 0
	for i := range f.sel.NumSeries() {
		for _, c := range f.sel.Overlapping(i, f.mint, f.maxt) {
			if c.MinT >= f.mint && c.MaxT <= f.maxt {
				n += int(c.Samples)
			}
		}
	}
	if n > limit {
		return s.tooMany()
	}
	return nil
}

func (s *sampler) tooMany() error {
	return refuse("exceeded sample limit (%d)", s.h.o.SampleLimit)
}

// add adds the samples of one series within the range of f, if there are some.
func (s *sampler) add(ctx context.Context, f found, one series, chunks []selection.Chunk) error {
	limit := s.h.o.SampleLimit
	if limit <= 0 {
		limit = math.MaxInt
	}
	s.floats, _ = appendLabels(s.floats[:0], one.labels)
	s.histograms = s.histograms[:0]
	s.reuse = one.sel.Decode(one.i, chunks, f.mint, f.maxt, s.reuse)
	before := s.n
	for v := s.reuse.Next(); v != chunkenc.ValNone; v = s.reuse.Next() {
		if s.n++; s.n > limit {
			return s.tooMany()
		}
		switch v {
		case chunkenc.ValFloat:
			t, f := s.reuse.At()
			s.floats = appendSample(s.floats, t, f)
		case chunkenc.ValHistogram:
			t, h := s.reuse.AtHistogram(nil)
			if err := s.addHistogram(prompb.FromIntHistogram(t, h)); err != nil {
				return err
			}
		default:
			t, h := s.reuse.AtFloatHistogram(nil)
			if err := s.addHistogram(prompb.FromFloatHistogram(t, h)); err != nil {
				return err
			}
		}
	}
	if err := s.reuse.Err(); err != nil {
		return err
	}
	if s.n > before {
		return s.endSeries(ctx)
	}
	return nil
}

// appendSample appends a Sample as a field. Other than Prometheus it writes -0, which
// protobuf leaves out in Prometheus's own encoding as if it were 0.
func appendSample(b []byte, t int64, v float64) []byte {
	n := numberLen(uint64(t))
	value := math.Float64bits(v)
	if value != 0 {
		n += 1 + 8
	}
	b = append(b, tagSamples, byte(n))
	if value != 0 {
		b = binary.LittleEndian.AppendUint64(append(b, tagSampleV), value)
	}
	return appendNumber(b, tagSampleT, uint64(t))
}

func (s *sampler) addHistogram(h prompb.Histogram) error {
	data, err := h.Marshal()
	if err != nil {
		return err
	}
	s.histograms = append(s.histograms, tagHistograms)
	s.histograms = binary.AppendUvarint(s.histograms, uint64(len(data)))
	s.histograms = append(s.histograms, data...)
	return nil
}

// endSeries ends the present series, and takes memory for what is held of it.
func (s *sampler) endSeries(ctx context.Context) error {
	var head [1 + binary.MaxVarintLen64]byte
	b := binary.AppendUvarint(append(head[:0], tagTimeseries), uint64(len(s.floats)+len(s.histograms)))
	s.write(b)
	s.write(s.floats)
	s.write(s.histograms)
	s.h.metrics.series.Inc()
	more := int64(cap(s.out)) - s.held
	s.held += more
	return s.lease.Grow(ctx, more)
}
