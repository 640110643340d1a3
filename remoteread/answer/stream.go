package answer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/remoteread/wire"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/encoding"
)

// Stream reads a streamed answer to q: frames that hold series and their
// encoded chunks. It reports whether the witness testified.
func (a *Reader) Stream(ctx context.Context, r io.Reader, q Question) (sel *selection.Selection, testified bool, err error) {
	f := wire.NewFrameReader(r, a.MaxFrame)
	defer f.Release()
	d := newStreamBuilder(a.MaxBytes)
	d.b.Within(ctx)
	d.asked = q.selector()
	d.expected.expect(selection.Expected(ctx).Series, 0, nil)
	w := walker{sink: d, view: q.View}
	for {
		frame, err := f.Next()
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
		if err := q.Count(d.b.Bytes()+d.labelBytes, d.series); err != nil {
			return nil, false, err
		}
	}
}

// streamBuilder puts the series of frames into a selection.
type streamBuilder struct {
	b          *selection.Builder
	maker      wire.LabelMaker
	asked      selector      // expected series are known to be of it
	labels     labels.Labels // of the current series
	overwrite  labels.Labels // those that were looked for last
	expected   index
	matched    int // the expected series that matched; -1 for the current one
	labelBytes int64
	series     int64
}

func newStreamBuilder(limit int64) *streamBuilder {
	return &streamBuilder{b: selection.NewBuilder(limit), maker: wire.NewLabelMaker()}
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
func (d *streamBuilder) startSeries(ls []wire.Label) error {
	if len(d.expected.series) > 0 && d.maker.Overwrite(ls, &d.overwrite) {
		if i := d.expected.find(d.overwrite); i >= 0 {
			d.start(d.expected.series[i])
			return nil
		}
	}
	l, err := d.maker.Make(ls)
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
