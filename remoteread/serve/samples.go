package serve

import (
	"context"
	"encoding/binary"
	"strconv"
	"sync"

	"github.com/prometheus/prometheus/prompb"

	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/parallel"
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
		parts = append(append(parts, literal(head)), s.parts...)
		size += int64(len(head)) + s.size
	}
	if err := checkSnappy(size); err != nil {
		return err
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

// coders are used again by other requests.
var coders = sync.Pool{New: func() any { return new(coder) }}

// messageBytes is how many bytes of series are compressed together, or more of the last one.
const messageBytes = 256 << 10

// collect adds what a query found.
func (s *sampler) collect(ctx context.Context, f found) error {
	limit := int64(s.h.o.SampleLimit)
	// What certainly has too many samples is refused before any is decoded.
	if limit > 0 && !f.onlyLabels && f.sel.NumSamples() > limit {
		if n, err := f.count(ctx); err != nil {
			return err
		} else if n > limit {
			return s.tooMany()
		}
	}
	s.message = s.message[:0]
	err := f.each(ctx, s.external, func(one series, chunks []selection.Chunk) error {
		s.point.Pass()
		n, err := s.coder.series(f, one, chunks)
		if err != nil {
			return err
		}
		if s.count += int64(n); s.count > limit && limit > 0 {
			return s.tooMany()
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

func (s *sampler) tooMany() error {
	return refuse("exceeded sample limit (%d)", s.h.o.SampleLimit)
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
