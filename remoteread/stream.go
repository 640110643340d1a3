package remoteread

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/promwarp/promwarp/selection"
)

// readStream reads a streamed answer: frames that hold series and their
// encoded chunks.
func (c *Client) readStream(ctx context.Context, r io.Reader, sh *share) (*selection.Selection, error) {
	f := newFrameReader(r, c.maxFrame)
	defer f.release()
	d := newStreamBuilder(c.maxBytes)
	d.expected = selection.Expected(ctx).Series
	w := walker{sink: d}
	for {
		frame, err := f.next()
		if errors.Is(err, io.EOF) {
			return d.b.Finish()
		}
		if err != nil {
			return nil, err
		}
		if err := w.frame(frame); err != nil {
			return nil, err
		}
		if err := sh.set(d.b.Bytes()+d.labelBytes, d.series); err != nil {
			return nil, err
		}
	}
}

// wireChunk is a chunk as it lies in a frame.
type wireChunk struct {
	minT, maxT int64 // ms since the epoch
	encoding   uint64
	data       []byte
}

// frameSink takes what a walker finds. What it is given is valid during the
// call only.
type frameSink interface {
	startSeries([]wireLabel) error
	chunk(wireChunk) error
	queryIndex(int64) error
}

// walker goes through frames, by hand and not with prompb, which would copy
// every chunk into an object of its own first.
type walker struct {
	sink   frameSink
	labels []wireLabel // for reuse
}

// frame goes through a prompb.ChunkedReadResponse.
func (w *walker) frame(b []byte) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return malformedField("a frame", n)
		}
		b = b[n:]
		switch {
		case num == 1 && typ == protowire.BytesType: // chunked_series
			v, n := protowire.ConsumeBytes(b)
			if n < 0 {
				return malformedField("a series", n)
			}
			b = b[n:]
			if err := w.series(v); err != nil {
				return err
			}
		case num == 2 && typ == protowire.VarintType: // query_index
			v, n := protowire.ConsumeVarint(b)
			if n < 0 {
				return malformedField("the index of a query", n)
			}
			b = b[n:]
			if err := w.sink.queryIndex(int64(v)); err != nil {
				return err
			}
		case num <= 2:
			return wrongType("a frame", num, typ)
		default:
			n := protowire.ConsumeFieldValue(num, typ, b)
			if n < 0 {
				return malformedField("a frame", n)
			}
			b = b[n:]
		}
	}
	return nil
}

// series goes through a prompb.ChunkedSeries, twice: nothing says that all
// labels come before the first chunk.
func (w *walker) series(b []byte) error {
	w.labels = w.labels[:0]
	for rest := b; len(rest) > 0; {
		num, typ, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return malformedField("a series", n)
		}
		rest = rest[n:]
		if num <= 2 && typ != protowire.BytesType {
			return wrongType("a series", num, typ)
		}
		if num != 1 {
			n := protowire.ConsumeFieldValue(num, typ, rest)
			if n < 0 {
				return malformedField("a series", n)
			}
			rest = rest[n:]
			continue
		}
		v, n := protowire.ConsumeBytes(rest)
		if n < 0 {
			return malformedField("a label", n)
		}
		rest = rest[n:]
		l, err := walkLabel(v)
		if err != nil {
			return err
		}
		w.labels = append(w.labels, l)
	}
	if err := w.sink.startSeries(w.labels); err != nil {
		return err
	}
	for len(b) > 0 {
		// The first pass has been through all of this without an error.
		num, typ, n := protowire.ConsumeTag(b)
		b = b[n:]
		if num != 2 {
			b = b[protowire.ConsumeFieldValue(num, typ, b):]
			continue
		}
		v, n := protowire.ConsumeBytes(b)
		b = b[n:]
		c, err := walkChunk(v)
		if err != nil {
			return err
		}
		if err := w.sink.chunk(c); err != nil {
			return err
		}
	}
	return nil
}

// walkChunk goes through a prompb.Chunk.
func walkChunk(b []byte) (c wireChunk, err error) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return c, malformedField("a chunk", n)
		}
		b = b[n:]
		switch {
		case num <= 3 && typ == protowire.VarintType:
			v, n := protowire.ConsumeVarint(b)
			if n < 0 {
				return c, malformedField("a chunk", n)
			}
			b = b[n:]
			switch num {
			case 1:
				c.minT = int64(v)
			case 2:
				c.maxT = int64(v)
			case 3:
				c.encoding = v
			}
		case num == 4 && typ == protowire.BytesType:
			v, n := protowire.ConsumeBytes(b)
			if n < 0 {
				return c, malformedField("a chunk's data", n)
			}
			b = b[n:]
			c.data = v
		case num <= 4:
			return c, wrongType("a chunk", num, typ)
		default:
			n := protowire.ConsumeFieldValue(num, typ, b)
			if n < 0 {
				return c, malformedField("a chunk", n)
			}
			b = b[n:]
		}
	}
	return c, nil
}

// streamBuilder puts the series of frames into a selection.
type streamBuilder struct {
	b          *selection.Builder
	maker      labelMaker
	labels     labels.Labels // of the current series
	expected   expected
	labelBytes int64
	series     int64
}

func newStreamBuilder(limit int64) *streamBuilder {
	return &streamBuilder{b: selection.NewBuilder(limit), maker: newLabelMaker()}
}

// queryIndex implements frameSink. A request holds one query.
func (d *streamBuilder) queryIndex(i int64) error {
	if i != 0 {
		return fmt.Errorf("the answer is for query %d of a request with one query", i)
	}
	return nil
}

// startSeries implements frameSink. A series whose chunks did not fit into one
// frame goes on in the next one, which repeats the labels.
func (d *streamBuilder) startSeries(ls []wireLabel) error {
	if d.series > 0 && compareWire(d.labels, ls) == 0 {
		return nil
	}
	var err error
	known := false
	if d.labels, known = d.expected.find(ls); !known {
		if d.labels, err = d.maker.make(ls); err != nil {
			return err
		}
	}
	d.labelBytes += int64(d.labels.ByteSize())
	d.series++
	d.b.Series(d.labels)
	return nil
}

// chunk implements frameSink.
func (d *streamBuilder) chunk(c wireChunk) error {
	// The numbers of prompb.Chunk_Encoding are those of chunkenc.Encoding,
	// which holds only a byte. The builder checks the rest.
	if c.encoding > math.MaxUint8 {
		return fmt.Errorf("series %s: unknown chunk encoding %d", d.labels, c.encoding)
	}
	return d.b.Chunk(chunkenc.Encoding(c.encoding), c.minT, c.maxT, c.data)
}
