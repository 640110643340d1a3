package serve

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/klauspost/compress/s2"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/selection"
)

// coder encodes series as TimeSeries, one after another, and compresses them.
type coder struct {
	compressor
	decoded    floats
	reuse      chunkenc.Iterator
	floats     []byte // of the present series: labels and Samples
	histograms []byte // and Histograms
}

// series encodes the samples of p within the range of f and returns how many they are. For a
// reader that looks at labels alone, it encodes none, as a Prometheus does.
func (c *coder) series(f found, p *pending) (n int, err error) {
	c.floats, _ = appendLabels(c.floats[:0], p.labels)
	c.histograms = c.histograms[:0]
	switch {
	case f.onlyLabels:
		return 0, nil
	case allFloats(p.chunks):
		times, values, err := c.decoded.within(f, p.series, p.chunks)
		for k, t := range times {
			c.floats = appendSample(c.floats, t, values[k])
		}
		return len(times), err
	}
	c.reuse = p.sel.Decode(p.i, p.chunks, f.mint, f.maxt, c.reuse)
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
	n := numberLen(uint64(t))
	if value != 0 {
		n += 1 + 8
	}
	b = append(b, tagSamples, byte(n))
	if value != 0 {
		b = binary.LittleEndian.AppendUint64(append(b, tagSampleV), value)
	}
	return appendNumber(b, tagSampleT, uint64(t))
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

// endSeries adds the present series to what is compressed.
func (c *coder) endSeries() {
	var head [1 + binary.MaxVarintLen64]byte
	c.write(binary.AppendUvarint(append(head[:0], tagTimeseries), uint64(len(c.floats)+len(c.histograms))))
	c.write(c.floats)
	c.write(c.histograms)
}

// snappyBlock is how many bytes snappy compresses at a time; each such block refers to
// nothing outside of itself.
const snappyBlock = 64 << 10

// compressor compresses what is appended to it, so that only the compressed bytes of a
// large message are held. In snappy's format the number of all bytes comes first, then any
// sequence of elements, so what block after block compresses to may be put together, and
// anything may be put before it once its content is known.
type compressor struct {
	raw  []byte // not compressed yet
	tmp  []byte
	out  []byte // elements
	size int64  // bytes that out stands for
}

// write appends b.
func (c *compressor) write(b []byte) {
	for len(b) > 0 {
		n := min(len(b), snappyBlock-len(c.raw))
		c.raw = append(c.raw, b[:n]...)
		b = b[n:]
		if len(c.raw) == snappyBlock {
			c.flush()
		}
	}
}

// flush compresses what is not compressed yet.
func (c *compressor) flush() {
	if len(c.raw) == 0 {
		return
	}
	c.size += int64(len(c.raw))
	c.tmp = s2.EncodeSnappy(c.tmp[:cap(c.tmp)], c.raw)
	_, header := binary.Uvarint(c.tmp)
	c.out = append(c.out, c.tmp[header:]...)
	c.raw = c.raw[:0]
}

// compressed returns what was appended, compressed, and how many bytes it stands for.
func (c *compressor) compressed() (out []byte, size int64) {
	c.flush()
	return slices.Clone(c.out), c.size
}

// reset forgets what was appended.
func (c *compressor) reset() { c.raw, c.out, c.size = c.raw[:0], c.out[:0], 0 }

// literal returns b, of 1 to 60 bytes, as an element.
func literal(b []byte) []byte {
	return append([]byte{byte(len(b)-1) << 2}, b...)
}

// checkSnappy refuses an answer of more bytes than snappy has a number for.
func checkSnappy(size int64) error {
	if size > math.MaxUint32 {
		return refuse("the answer of samples would be %d bytes and cannot be more than %d; ask for chunks, or for less", size, uint32(math.MaxUint32))
	}
	return nil
}
