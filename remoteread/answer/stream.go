package answer

import (
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

// stream reads a streamed answer: frames that hold series and their encoded chunks, those of a
// query before those of the next.
func (a *Reader) stream(r io.Reader, parts []*Part) (testified bool, err error) {
	f := wire.NewFrameReader(r, a.MaxFrame)
	defer f.Release()
	first := int64(0) // query of the current part
	i, w := 0, a.begin(parts[0])
	gone := func() bool { return parts[i].Ctx.Err() != nil } // no query waits for the current part
	end := func() (err error) {
		if !gone() {
			parts[i].Sel, err = w.sink.(*streamBuilder).b.Finish()
		}
		return err
	}
	for {
		frame, err := f.Next()
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return false, err
		}
		query := int64(math.MaxInt64) // behind all parts
		if !ended {
			query = queryOf(frame)
		}
		for i+1 < len(parts) && query >= first+parts[i].queries {
			if err := end(); err != nil {
				return false, err
			}
			first += parts[i].queries
			i++
			w = a.begin(parts[i])
		}
		switch {
		case ended:
			return w.testified, end()
		case gone():
			continue
		}
		err = w.frame(frame, query-first)
		if d := w.sink.(*streamBuilder); err == nil {
			err = parts[i].Count(d.b.Bytes()+d.labelBytes, d.series)
		}
		if err != nil && !gone() {
			return false, err
		}
	}
}

// begin begins with what is for p.
func (a *Reader) begin(p *Part) *walker {
	d := newStreamBuilder(a.MaxBytes)
	d.b.Within(p.Ctx)
	d.asked = p.selector()
	d.expected.series = selection.Expected(p.Ctx).Series
	return &walker{sink: d, view: p.View}
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
