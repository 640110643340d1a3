package answer

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/promwarp/promwarp/remoteread/external"
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
	i, d := 0, a.begin(parts[0])
	gone := func() bool { return parts[i].Ctx.Err() != nil } // no query waits for the current part
	end := func() (err error) {
		if !gone() {
			parts[i].Sel, err = d.b.Finish()
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
		var series [][]byte
		if !ended {
			if series, query, err = d.parse(frame); err != nil {
				return false, err
			}
		}
		for i+1 < len(parts) && query >= first+parts[i].queries {
			if err := end(); err != nil {
				return false, err
			}
			first += parts[i].queries
			i++
			d = a.begin(parts[i])
		}
		switch {
		case ended:
			return d.testified, end()
		case gone():
			continue
		}
		if err = d.frame(series, query-first); err == nil {
			err = parts[i].Count(d.b.Bytes()+d.labelBytes, d.series)
		}
		if err != nil && !gone() {
			return false, err
		}
	}
}

// begin begins with what is for p.
func (a *Reader) begin(p *Part) *streamBuilder {
	d := newStreamBuilder(a.MaxBytes)
	d.b.Within(p.Ctx)
	d.asked, d.view = p.selector(), p.View
	d.expected.series = p.Expected.Series
	return d
}

// streamBuilder puts the series of frames into a selection. It goes through frames by hand and not
// with prompb, which would copy every chunk into an object of its own first.
type streamBuilder struct {
	b          *selection.Builder
	maker      wire.LabelMaker
	view       *external.View // or nil
	asked      selector       // expected series are known to be of it
	labels     labels.Labels  // of the current series
	overwrite  labels.Labels  // those that were looked for last
	expected   index
	labelBytes int64
	series     int64
	testified  bool // whether the witness came as it should

	inFrame [][]byte // for reuse
	walked  []wire.Label
}

func newStreamBuilder(limit int64) *streamBuilder {
	return &streamBuilder{b: selection.NewBuilder(limit), maker: wire.NewLabelMaker()}
}

// parse returns the series in a prompb.ChunkedReadResponse, and the number of the query that it
// answers.
func (d *streamBuilder) parse(frame []byte) (series [][]byte, query int64, err error) {
	const where = "a frame"
	d.inFrame = d.inFrame[:0]
	for f, err := range wire.Fields(frame, where) {
		switch {
		case err != nil:
		case f.Num == 1:
			d.inFrame, err = append(d.inFrame, f.Bytes), f.Is(protowire.BytesType, where)
		case f.Num == 2:
			query, err = int64(f.Value), f.Is(protowire.VarintType, where)
		}
		if err != nil {
			return nil, 0, err
		}
	}
	return d.inFrame, query, nil
}

var errNoSeries = errors.New("a frame without a series")

// frame adds the series of a frame that answers the given query, counted from the first of the part.
// One without a series is an error, as an answer of such frames might never end: zeros are frames of
// no bytes whose checksum is right. Series of another query are a clash, but for the witness.
func (d *streamBuilder) frame(series [][]byte, query int64) error {
	switch {
	case query != 0 && d.view == nil:
		return fmt.Errorf("the answer is for query %d of a request with one query", query)
	case len(series) == 0:
		return errNoSeries
	case query == 0:
		for _, s := range series {
			if err := d.addSeries(s); err != nil {
				return err
			}
		}
		return nil
	case query == d.view.WitnessIndex():
		for _, s := range series {
			d.testified = d.testified || d.view.Testifies(s)
		}
		return nil
	}
	return d.view.Clash(query)
}

// addSeries adds a prompb.ChunkedSeries. It goes through it twice: nothing says that all labels come
// before the first chunk. A series whose chunks did not fit into one frame goes on in the next one,
// which repeats the labels.
func (d *streamBuilder) addSeries(b []byte) error {
	matched, at := 0, -1 // bytes of labels that are known, and of which expected series
	if !d.view.Adds() {
		if d.series > 0 {
			matched = startsWith(b, d.labels)
		}
		if matched == 0 {
			at, matched = d.expected.match(b)
		}
	}
	if err := d.findLabels(b[matched:]); err != nil {
		return err
	}
	if matched > 0 && len(d.walked) == 0 {
		if at >= 0 {
			d.start(d.expected.series[at])
		}
		return d.chunks(b[matched:])
	}
	if matched > 0 {
		if err := d.findLabels(b); err != nil {
			return err
		}
	}
	ls := d.walked
	if d.view.Adds() {
		var err error
		if ls, err = d.view.Strip(ls); err != nil {
			return err
		}
	}
	if err := d.startWith(ls); err != nil {
		return err
	}
	return d.chunks(b)
}

// startWith starts the series with labels ls.
func (d *streamBuilder) startWith(ls []wire.Label) error {
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

// findLabels goes through fields of a prompb.ChunkedSeries for its labels.
func (d *streamBuilder) findLabels(b []byte) error {
	d.walked = d.walked[:0]
	for len(b) > 0 {
		where := "a series"
		if b[0] == 0x0a {
			where = "a label"
		}
		num, v, n, err := wire.NextField(b, where, 2)
		if err != nil {
			return err
		}
		b = b[n:]
		if num != 1 {
			continue
		}
		l, err := wire.WalkLabel(v)
		if err != nil {
			return err
		}
		d.walked = append(d.walked, l)
	}
	return nil
}

// chunks goes through fields of a prompb.ChunkedSeries for its chunks.
func (d *streamBuilder) chunks(b []byte) error {
	for len(b) > 0 {
		num, v, n, err := wire.NextField(b, "a series", 2)
		if err != nil {
			return err
		}
		b = b[n:]
		if num != 2 {
			continue
		}
		if err := d.chunk(v); err != nil {
			return err
		}
	}
	return nil
}

// chunk adds a prompb.Chunk to the current series.
func (d *streamBuilder) chunk(b []byte) error {
	const where = "a chunk"
	var numbers [4]uint64 // the fields min_time_ms, max_time_ms and type
	var data []byte
	for f, err := range wire.Fields(b, where) {
		switch {
		case err != nil || f.Num > 4:
		case f.Num == 4:
			data, err = f.Bytes, f.Is(protowire.BytesType, where)
		default:
			numbers[f.Num], err = f.Value, f.Is(protowire.VarintType, where)
		}
		if err != nil {
			return err
		}
	}
	// The numbers of prompb.Chunk_Encoding are those of chunkenc.Encoding,
	// which holds only a byte. The builder checks the rest.
	if numbers[3] > math.MaxUint8 {
		return fmt.Errorf("series %s: unknown chunk encoding %d", d.labels, numbers[3])
	}
	minT, maxT, e := int64(numbers[1]), int64(numbers[2]), chunkenc.Encoding(numbers[3])
	if minT <= maxT { // the builder says otherwise
		if err := encoding.CheckHeader(e, minT, maxT, data); err != nil {
			return &selection.CorruptError{Series: d.labels, MinT: minT, Err: err}
		}
	}
	return d.b.Chunk(e, minT, maxT, data)
}
