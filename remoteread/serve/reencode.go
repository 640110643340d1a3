package serve

import (
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/cpuexec/decode"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/encoding"
	"github.com/promwarp/promwarp/selection/samples"
)

// piece is a chunk as it is sent.
type piece struct {
	minT, maxT int64 // ms, of its first and last sample
	enc        chunkenc.Encoding
	data       []byte // none if it has no samples
}

// reencode returns the samples of chunk c of one within the range of f as a chunk in encoding enc.
//
// A chunk of which something is cut off is what Prometheus's database makes of it. So its
// first histogram does not say that it is no counter reset: what is before it was cut off.
// A chunk that only changes its encoding says of resets what it said.
func (s *stream) reencode(f found, one series, c selection.Chunk, enc chunkenc.Encoding) (piece, error) {
	if enc == chunkenc.EncXOR {
		times, values, err := s.decoded.within(f, one, []selection.Chunk{c})
		if err != nil || len(times) == 0 {
			return piece{}, err
		}
		return piece{times[0], times[len(times)-1], enc, encoding.AppendXOR(nil, times, values)}, nil
	}
	s.decoder = one.sel.Decode(one.i, []selection.Chunk{c}, f.mint, f.maxt, s.decoder)
	data, first, last, err := samples.Encode(enc, s.decoder)
	if err == nil {
		if k := resetByte(c.Enc); k >= 0 && f.holds(c) && data != nil {
			setReset(enc, data, one.sel.Bytes(c)[k])
		}
		return piece{first, last, enc, data}, nil
	}
	if s.decoder.Err() == nil {
		err = fmt.Errorf("encoding a chunk of series %s at %d ms again: %w", one.labels, s.decoder.AtT(), err)
	}
	return piece{}, err
}

// setReset makes data, a chunk of histograms in encoding e, say of resets what the byte of another
// one says.
func setReset(e chunkenc.Encoding, data []byte, said byte) {
	at := &data[resetByte(e)]
	*at = *at&^chunkenc.CounterResetHeaderMask | said&chunkenc.CounterResetHeaderMask
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

// floats decodes chunks without histograms.
type floats struct{ decode.Buffer }

// within returns the samples of chunks of one within the range of f, valid until the next call.
func (b *floats) within(f found, one series, chunks []selection.Chunk) ([]int64, []float64, error) {
	b.Reset()
	if _, err := b.Read(one.sel, one.i, chunks, false); err != nil {
		one.sel.Discard()
		return nil, nil, err
	}
	lo, _ := slices.BinarySearch(b.Times, f.mint)
	hi, ok := slices.BinarySearch(b.Times, f.maxt)
	if ok {
		hi++
	}
	return b.Times[lo:max(lo, hi)], b.Values[lo:max(lo, hi)], nil
}
