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
	"github.com/promwarp/promwarp/selection/encoding"
)

// readStream reads a streamed answer: frames that hold series and their
// encoded chunks. It reports whether the witness testified.
func (c *Client) readStream(ctx context.Context, r io.Reader, sh *share, q question) (sel *selection.Selection, testified bool, err error) {
	f := newFrameReader(r, c.maxFrame)
	defer f.release()
	d := newStreamBuilder(c.maxBytes)
	d.b.Within(ctx)
	d.asked = q.selector()
	d.expected.expect(selection.Expected(ctx).Series, 0, nil)
	w := walker{sink: d, view: q.view}
	for {
		frame, err := f.next()
		if errors.Is(err, io.EOF) {
			sel, err := d.b.Finish()
			return sel, w.testified, err
		}
		if err != nil {
			return nil, false, err
		}
		if err := w.frame(frame); err != nil {
			return nil, false, err
		}
		if err := sh.set(d.b.Bytes()+d.labelBytes, d.series); err != nil {
			return nil, false, err
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
	// match returns how many bytes the labels take that a prompb.ChunkedSeries starts
	// with, if they are likely ones, and otherwise 0.
	match(series []byte) int
	startMatched()
	startSeries([]wireLabel) error
	chunk(wireChunk) error
	queryIndex(int64) error
}

// walker goes through frames, by hand and not with prompb, which would copy
// every chunk into an object of its own first.
type walker struct {
	sink   frameSink
	view   *view       // or nil
	labels []wireLabel // for reuse

	testified bool // whether the witness came as it should
}

// frame goes through a prompb.ChunkedReadResponse.
func (w *walker) frame(b []byte) error {
	if w.view != nil && (len(w.view.open) > 0 || w.view.witness != nil) {
		if first, err := w.others(b); !first || err != nil {
			return err
		}
	}
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

// others goes through a prompb.ChunkedReadResponse that may answer another query than the
// first, and reports whether it answers the first. Series of others are a clash, but for
// the witness. Which query a frame answers comes last in it.
func (w *walker) others(b []byte) (first bool, err error) {
	query := int64(0)
	var series [][]byte
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return false, malformedField("a frame", n)
		}
		b = b[n:]
		if num == 2 && typ == protowire.VarintType {
			if v, n := protowire.ConsumeVarint(b); n > 0 {
				query = int64(v)
			}
		}
		if num == 1 && typ == protowire.BytesType {
			if v, n := protowire.ConsumeBytes(b); n > 0 {
				series = append(series, v)
			}
		}
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			return false, malformedField("a frame", n)
		}
		b = b[n:]
	}
	switch {
	case query == 0:
		return true, nil
	case query == w.view.witnessIndex():
		for _, s := range series {
			w.testified = w.testified || w.view.testifies(s)
		}
		return false, nil
	case len(series) > 0:
		return false, w.view.clash(query)
	}
	return false, nil
}

// strippedSeries begins a series that has external labels.
func (w *walker) strippedSeries(b []byte) error {
	if err := w.findLabels(b); err != nil {
		return err
	}
	ls, err := w.view.strip(w.labels)
	if err != nil {
		return err
	}
	return w.sink.startSeries(ls)
}

// series goes through a prompb.ChunkedSeries, twice: nothing says that all
// labels come before the first chunk.
func (w *walker) series(b []byte) error {
	if w.view.adds() {
		if err := w.strippedSeries(b); err != nil {
			return err
		}
		return w.chunks(b)
	}
	matched := w.sink.match(b)
	if err := w.findLabels(b[matched:]); err != nil {
		return err
	}
	switch {
	case matched > 0 && len(w.labels) == 0:
		w.sink.startMatched()
		b = b[matched:]
	case matched > 0:
		if err := w.findLabels(b); err != nil {
			return err
		}
		fallthrough
	default:
		if err := w.sink.startSeries(w.labels); err != nil {
			return err
		}
	}
	return w.chunks(b)
}

// chunks goes through fields of a prompb.ChunkedSeries for its chunks.
func (w *walker) chunks(b []byte) error {
	for len(b) > 0 {
		num, v, n, err := nextField(b, "a series", 2)
		if err != nil {
			return err
		}
		b = b[n:]
		if num != 2 {
			continue
		}
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

// findLabels goes through fields of a prompb.ChunkedSeries for its labels.
func (w *walker) findLabels(b []byte) error {
	w.labels = w.labels[:0]
	for len(b) > 0 {
		where := "a series"
		if b[0] == 0x0a {
			where = "a label"
		}
		num, v, n, err := nextField(b, where, 2)
		if err != nil {
			return err
		}
		b = b[n:]
		if num != 1 {
			continue
		}
		l, err := walkLabel(v)
		if err != nil {
			return err
		}
		w.labels = append(w.labels, l)
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
	asked      selector      // expected series are known to be of it
	labels     labels.Labels // of the current series
	overwrite  labels.Labels // those that were looked for last
	expected   index
	matched    int // the expected series that matched; -1 for the current one
	labelBytes int64
	series     int64
}

func newStreamBuilder(limit int64) *streamBuilder {
	return &streamBuilder{b: selection.NewBuilder(limit), maker: newLabelMaker()}
}

// queryIndex implements frameSink. Only the first query has an answer.
func (d *streamBuilder) queryIndex(i int64) error {
	if i != 0 {
		return fmt.Errorf("the answer is for query %d of a request with one query", i)
	}
	return nil
}

// match implements frameSink. A series whose chunks did not fit into one frame goes on
// in the next one, which repeats the labels.
func (d *streamBuilder) match(series []byte) (n int) {
	if d.series > 0 {
		if n = startsWith(series, d.labels); n > 0 {
			d.matched = -1
			return n
		}
	}
	d.matched, n = d.expected.match(series)
	return n
}

// startMatched implements frameSink.
func (d *streamBuilder) startMatched() {
	if d.matched >= 0 {
		d.start(d.expected.series[d.matched])
	}
}

// startSeries implements frameSink.
func (d *streamBuilder) startSeries(ls []wireLabel) error {
	if len(d.expected.series) > 0 && d.maker.overwrite(ls, &d.overwrite) {
		if i := d.expected.find(d.overwrite); i >= 0 {
			d.start(d.expected.series[i])
			return nil
		}
	}
	l, err := d.maker.make(ls)
	if err != nil {
		return err
	}
	if err := d.asked.check(ls); err != nil {
		return err
	}
	d.start(l)
	return nil
}

func (d *streamBuilder) start(l labels.Labels) {
	if d.series > 0 && labels.Equal(d.labels, l) {
		return
	}
	d.labels = l
	d.labelBytes += int64(l.ByteSize())
	d.series++
	d.b.Series(l)
}

// chunk implements frameSink.
func (d *streamBuilder) chunk(c wireChunk) error {
	// The numbers of prompb.Chunk_Encoding are those of chunkenc.Encoding,
	// which holds only a byte. The builder checks the rest.
	if c.encoding > math.MaxUint8 {
		return fmt.Errorf("series %s: unknown chunk encoding %d", d.labels, c.encoding)
	}
	e := chunkenc.Encoding(c.encoding)
	if c.minT <= c.maxT { // the builder says otherwise
		if err := encoding.CheckHeader(e, c.minT, c.maxT, c.data); err != nil {
			return &selection.CorruptError{Series: d.labels, MinT: c.minT, Err: err}
		}
	}
	return d.b.Chunk(e, c.minT, c.maxT, c.data)
}
