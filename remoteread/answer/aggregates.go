package answer

import (
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/internal/leafpb"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/encoding"
)

// A chunk of a lower resolution has, of each window of 5 min or 1 h, one sample for each aggregate, at the
// window's last millisecond. What comes of it is an ordinary chunk: an average is made of a sum and a count,
// and a counter gets the resets back that its chunk has none of.

// span is the time range of a chunk, ms, both ends included.
type span struct {
	minT, maxT int64
	lower      bool // whether it is of a lower resolution
}

// overlaps notes a chunk of the current series, and reports whether it overlaps with one of another kind:
// samples would count twice.
func (d *streamBuilder) overlaps(c span) bool {
	d.spans = append(d.spans, c)
	return slices.ContainsFunc(d.spans, func(s span) bool { return s.lower != c.lower && s.minT <= c.maxT && c.minT <= s.maxT })
}

var (
	errOverlap = errors.New("raw samples and samples of a lower resolution overlap, as of a Querier over sidecars: read the store gateway")
	errMissing = errors.New("a chunk of a lower resolution lacks the aggregate that was asked for")
	errAverage = errors.New("native histograms of a lower resolution have no averages here: use rate, increase or sum_over_time, or no max_resolution")
)

// addAggregate adds what is asked for of a chunk of lower resolution to the current series. Chunks are by
// their fields.
func (d *streamBuilder) addAggregate(minT, maxT int64, chunks [][]byte) error {
	var es [2]chunkenc.Encoding // of a counter, or of a count and a sum
	var data [2][]byte
	for i, a := range d.aggregates {
		b := chunks[fieldRaw+int(a)]
		if b == nil {
			return fmt.Errorf("series %s: %w", d.labels, errMissing)
		}
		var err error
		if es[i], data[i], err = d.encoded(b); err != nil {
			return err
		}
	}
	average, counter := len(d.aggregates) == 2, d.aggregates[0] == leafpb.Aggr_COUNTER
	switch {
	case average && es[1] != chunkenc.EncXOR:
		return fmt.Errorf("series %s: %w", d.labels, errAverage)
	case !average && (!counter || es[0] != chunkenc.EncXOR):
		return d.add(es[0], minT, maxT, data[0])
	}
	times, values, err := samplesOf(data[0])
	if err == nil && counter {
		times, values, err = withResets(times, values)
	} else if err == nil {
		var same []int64
		var sums []float64
		if same, sums, err = samplesOf(data[1]); err == nil && !slices.Equal(times, same) {
			err = errors.New("its sums and counts are of different times")
		}
		for i := 0; err == nil && i < len(sums); i++ {
			values[i] = sums[i] / values[i]
		}
	}
	if err != nil {
		return &selection.CorruptError{Series: d.labels, MinT: minT, Err: err}
	}
	return d.b.Floats(times, values)
}

// samplesOf are the samples of an XOR chunk.
func samplesOf(data []byte) (times []int64, values []float64, err error) {
	if len(data) < encoding.HeaderBytes(chunkenc.EncXOR) || encoding.SampleCount(chunkenc.EncXOR, data) == 0 {
		return nil, nil, errors.New("it has no samples")
	}
	c, err := chunkenc.FromData(chunkenc.EncXOR, data)
	if err != nil {
		return nil, nil, err
	}
	it := c.Iterator(nil)
	for it.Next() != chunkenc.ValNone {
		t, v := it.At()
		times, values = append(times, t), append(values, v)
	}
	return times, values, it.Err()
}

// withResets makes a counter of a chunk's. That begins with the first raw value, goes on with the values at
// the ends of windows as if there had been no reset, and has the last raw value once more at the last time:
//
//	raw, every 2 min     7 8 9 | 3 4 5 | 6 7        at the end of each window of 5 min
//	the chunk            7, 9, 14, 16, and 7        16 - 7 = 9 is what the reset took away
//	the counter          7, 9, 5, 7                 whose increase is the same, 9
//
// The last reset lies in the first window that ends above what was taken away. Values before it stay as
// they are, be it that there were other resets. Where the counter rose on in that window before it was
// reset, or rose higher after, samples in the window say so.
func withResets(times []int64, values []float64) ([]int64, []float64, error) {
	end := len(times) - 1
	if end == 0 || times[end] != times[end-1] {
		return nil, nil, errors.New("a counter of a lower resolution lacks its last raw value")
	}
	last := values[end]
	first := 0
	if end > 1 && times[1] == times[0] {
		first = 1 // a window that ends with its first sample
	}
	times, values = times[first:end], values[first:end]
	fallen := values[len(values)-1] - last
	if !(fallen > 0) || len(values) == 1 {
		return times, values, nil
	}
	at := 1
	for at < len(values)-1 && values[at] <= fallen {
		at++
	}
	outTimes, out := slices.Clone(times[:at]), slices.Clone(values[:at])
	if step := (times[at] - times[at-1]) / 3; step > 0 {
		if fallen > values[at-1] {
			outTimes, out = append(outTimes, times[at-1]+step), append(out, fallen)
		}
		if values[at]-fallen >= fallen {
			outTimes, out = append(outTimes, times[at]-step), append(out, 0)
		}
	}
	for i := at; i < len(values); i++ {
		outTimes, out = append(outTimes, times[i]), append(out, values[i]-fallen)
	}
	return outTimes, out, nil
}
