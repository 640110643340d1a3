package serve

import (
	"context"
	"encoding/binary"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"

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
	s := &sampler{job: j, lease: j.h.o.Memory.Lease(memory.Answers)}
	defer s.lease.Release()
	parts := [][]byte{nil} // the first is for the size
	var size int64
	for _, q := range req.Queries {
		s.parts, s.size = nil, 0
		s.count.Store(0)
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
	lease *memory.Lease // of what is held of the answer
	parts [][]byte      // of the present query's result, compressed
	size  int64         // bytes that they stand for
	count atomic.Int64  // samples of the present query

	pending []pending // series that are not encoded yet
	samples int       // of their chunks
}

// pending is a series that is to be encoded, with its chunks that overlap the range.
type pending struct {
	series
	chunks []selection.Chunk
}

const (
	// groupSamples and groupSeries are from how many samples, or series, on a core encodes
	// together what is to be encoded: up to a millisecond of work.
	groupSamples = 16 << 10
	groupSeries  = 256
	// groupsAtOnce is how many groups a core are made before they are waited for.
	groupsAtOnce = 4
)

// collect adds what a query found.
func (s *sampler) collect(ctx context.Context, f found) error {
	// What certainly has too many samples is refused before any is decoded.
	if limit := int64(s.h.o.SampleLimit); limit > 0 && !f.onlyLabels && f.sel.NumSamples() > limit {
		if n, err := f.count(ctx); err != nil {
			return err
		} else if n > limit {
			return s.tooMany()
		}
	}
	most := groupsAtOnce * runtime.GOMAXPROCS(0)
	err := f.each(ctx, s.external, func(one series, chunks []selection.Chunk) error {
		s.pending = append(s.pending, pending{one, chunks})
		for i := range chunks {
			s.samples += int(chunks[i].Samples)
		}
		if s.samples < most*groupSamples && len(s.pending) < most*groupSeries {
			return nil
		}
		return s.encode(ctx, f)
	})
	if err != nil {
		return err
	}
	return s.encode(ctx, f)
}

func (s *sampler) tooMany() error {
	return refuse("exceeded sample limit (%d)", s.h.o.SampleLimit)
}

// encode adds the series that are pending to the result, in groups on all cores.
func (s *sampler) encode(ctx context.Context, f found) error {
	groups := grouped(s.pending)
	s.pending, s.samples = s.pending[:0], 0
	parts, sizes, errs := make([][]byte, len(groups)), make([]int64, len(groups)), make([]error, len(groups))
	parallel.While(runtime.GOMAXPROCS(0), len(groups), func(_, i int) bool {
		if errs[i] = ctx.Err(); errs[i] == nil {
			parts[i], sizes[i], errs[i] = s.group(ctx, f, groups[i])
		}
		return errs[i] == nil
	})
	for i, err := range errs {
		if err != nil {
			return err
		}
		s.parts = append(s.parts, parts[i])
		s.size += sizes[i]
	}
	return nil
}

// grouped divides series into groups that are encoded by one core each.
func grouped(all []pending) (groups [][]pending) {
	first, samples := 0, 0
	for i := range all {
		for k := range all[i].chunks {
			samples += int(all[i].chunks[k].Samples)
		}
		if n := i + 1 - first; samples >= groupSamples || n >= groupSeries || i+1 == len(all) {
			groups = append(groups, all[first:i+1:i+1])
			first, samples = i+1, 0
		}
	}
	return groups
}

// coders are kept for other requests.
var coders = sync.Pool{New: func() any { return new(coder) }}

// group returns the series of a group, compressed, and how many bytes that stands for.
func (s *sampler) group(ctx context.Context, f found, group []pending) ([]byte, int64, error) {
	c := coders.Get().(*coder)
	c.message = c.message[:0]
	for i := range group {
		n, err := c.series(f, &group[i])
		if err != nil {
			return nil, 0, err
		}
		if limit := s.h.o.SampleLimit; s.count.Add(int64(n)) > int64(limit) && limit > 0 {
			return nil, 0, s.tooMany()
		}
		if n > 0 || f.onlyLabels {
			c.endSeries()
		}
	}
	part, size := c.elements(), int64(len(c.message))
	coders.Put(c)
	return part, size, s.lease.Grow(ctx, int64(len(part)))
}
