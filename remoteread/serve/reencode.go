package serve

import (
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/encoding"
)

// piece is a chunk as it is sent.
type piece struct {
	minT, maxT int64 // ms, of its first and last sample
	enc        chunkenc.Encoding
	data       []byte
}

// reencoder makes chunks of parts of chunks, or in other encodings.
type reencoder struct {
	times   []int64
	values  []float64
	scratch []byte

	reuse chunkenc.Iterator
	out   []piece
	open  chunkenc.Chunk // what samples go into; nil before the first one
	app   chunkenc.Appender
	enc   chunkenc.Encoding
	gauge bool // whether the chunk is one of gauges
}

// chunk returns the samples of c, a chunk of s, from mint to maxt (ms, both included) in
// encoding enc. That is one chunk, or none if there are no such samples. The pieces are
// valid until the next call.
//
// A chunk of which something is cut off is what Prometheus's database makes of it. So its
// first histogram does not say that it is no counter reset: what is before it was cut off.
// A chunk that only changes its encoding says of resets what it said.
func (r *reencoder) chunk(s series, c selection.Chunk, mint, maxt int64, enc chunkenc.Encoding) ([]piece, error) {
	r.out, r.open, r.enc, r.gauge = r.out[:0], nil, enc, false
	if c.Enc == chunkenc.EncXOR && enc == chunkenc.EncXOR {
		if data, first, last, ok := encoding.CutXOR(c, s.sel.Bytes(c), mint, maxt); ok {
			if data != nil {
				r.out = append(r.out, piece{first, last, enc, data})
			}
			return r.out, nil
		}
	}
	r.reuse = s.sel.Decode(s.i, []selection.Chunk{c}, mint, maxt, r.reuse)
	if enc == chunkenc.EncXOR {
		return r.floats()
	}
	for v := r.reuse.Next(); v != chunkenc.ValNone; v = r.reuse.Next() {
		if err := r.add(v, r.reuse); err != nil {
			return nil, fmt.Errorf("encoding a chunk of series %s at %d ms again: %w", s.labels, r.reuse.AtT(), err)
		}
	}
	if err := r.reuse.Err(); err != nil {
		return nil, err
	}
	r.close()
	if c.MinT >= mint && c.MaxT <= maxt && len(r.out) > 0 {
		setResetHeader(r.out[0], resetHeader(c.Enc, s.sel.Bytes(c)))
	}
	return r.out, nil
}

// floats makes an XOR chunk of all samples, which are floats.
func (r *reencoder) floats() ([]piece, error) {
	r.times, r.values = r.times[:0], r.values[:0]
	for r.reuse.Next() != chunkenc.ValNone {
		t, v := r.reuse.At()
		r.times, r.values = append(r.times, t), append(r.values, v)
	}
	if err := r.reuse.Err(); err != nil || len(r.times) == 0 {
		return nil, err
	}
	r.scratch = encoding.AppendXOR(r.scratch[:0], r.times, r.values)
	r.out = append(r.out, piece{r.times[0], r.times[len(r.times)-1], chunkenc.EncXOR, slices.Clone(r.scratch)})
	return r.out, nil
}

// add appends the sample of kind v that it is at.
func (r *reencoder) add(v chunkenc.ValueType, it chunkenc.Iterator) (err error) {
	if r.open == nil {
		if err := r.begin(it.AtT()); err != nil {
			return err
		}
	}
	var next chunkenc.Chunk
	var recoded bool
	st, t := it.AtST(), it.AtT()
	switch v {
	case chunkenc.ValFloat:
		_, f := it.At()
		r.app.Append(st, t, f)
	case chunkenc.ValHistogram:
		var h *histogram.Histogram
		_, h = it.AtHistogram(nil)
		h.CounterResetHint = r.hint(h.CounterResetHint)
		next, recoded, r.app, err = r.app.AppendHistogram(nil, st, t, h, false)
	case chunkenc.ValFloatHistogram:
		var h *histogram.FloatHistogram
		_, h = it.AtFloatHistogram(nil)
		h.CounterResetHint = r.hint(h.CounterResetHint)
		next, recoded, r.app, err = r.app.AppendFloatHistogram(nil, st, t, h, false)
	default:
		err = fmt.Errorf("unknown kind of sample %s", v)
	}
	if err != nil {
		return err
	}
	if next != nil {
		// What one chunk held fits into one. This is for one that holds what a
		// Prometheus would not put there.
		if !recoded {
			r.close()
			r.out = append(r.out, piece{minT: t, enc: r.enc})
		}
		r.open = next
	}
	r.out[len(r.out)-1].maxT = t
	return nil
}

// hint returns what a sample that says h of resets is: all of a chunk are gauges or none
// is, but a stale marker does not say it, and Prometheus's database fails to cut such a
// chunk.
func (r *reencoder) hint(h histogram.CounterResetHint) histogram.CounterResetHint {
	if r.gauge = r.gauge || h == histogram.GaugeType; r.gauge {
		return histogram.GaugeType
	}
	return h
}

// begin opens the first chunk, whose first sample is at t (ms).
func (r *reencoder) begin(t int64) (err error) {
	if r.open, err = chunkenc.NewEmptyChunk(r.enc); err != nil {
		return err
	}
	if r.app, err = r.open.Appender(); err != nil {
		return err
	}
	r.out = append(r.out, piece{minT: t, enc: r.enc})
	return nil
}

// close notes the bytes of the open chunk.
func (r *reencoder) close() {
	if r.open != nil {
		r.out[len(r.out)-1].data = r.open.Bytes()
	}
}

// resetByte returns which byte of a chunk in encoding e says in its highest two bits
// whether its first histogram is after a counter reset; -1 if none does.
func resetByte(e chunkenc.Encoding) int {
	switch e {
	case chunkenc.EncHistogram, chunkenc.EncFloatHistogram:
		return 2
	case chunkenc.EncHistogramST, chunkenc.EncFloatHistogramST:
		return 0
	}
	return -1
}

// resetHeader returns what a chunk in encoding e says of counter resets.
func resetHeader(e chunkenc.Encoding, data []byte) chunkenc.CounterResetHeader {
	k := resetByte(e)
	if k < 0 {
		return chunkenc.UnknownCounterReset
	}
	return chunkenc.CounterResetHeader(data[k] & chunkenc.CounterResetHeaderMask)
}

// setResetHeader makes p say h, if it has histograms.
func setResetHeader(p piece, h chunkenc.CounterResetHeader) {
	if k := resetByte(p.enc); k >= 0 {
		p.data[k] = p.data[k]&^chunkenc.CounterResetHeaderMask | byte(h)
	}
}
