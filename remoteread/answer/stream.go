package answer

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"google.golang.org/protobuf/encoding/protowire"

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
	d.finder.begin(p)
	return d
}

// streamBuilder puts the series of frames into a selection. It goes through frames by hand and not
// with prompb, which would copy every chunk into an object of its own first.
type streamBuilder struct {
	finder
	b          *selection.Builder
	labels     labels.Labels // of the current series
	labelBytes int64
	series     int64
	testified  bool // whether the witness came as it should

	inFrame [][]byte // for reuse
}

func newStreamBuilder(limit int64) *streamBuilder {
	return &streamBuilder{b: selection.NewBuilder(limit), finder: finder{maker: wire.NewLabelMaker()}}
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

// addSeries adds a prompb.ChunkedSeries. A series whose chunks did not fit into one frame goes on in
// the next one, which repeats the labels.
func (d *streamBuilder) addSeries(b []byte) error {
	l, _, rest, err := d.find(b)
	if err != nil {
		return err
	}
	if d.series == 0 || !labels.Equal(d.labels, l) {
		d.labels = l
		d.labelBytes += int64(l.ByteSize())
		d.series++
		d.b.Series(l)
	}
	for f, err := range wire.Messages(rest, "a series", 2) {
		if err == nil && f.Num == 1 {
			err = errLate
		}
		if err == nil {
			err = d.chunk(f.Bytes)
		}
		if err != nil {
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
