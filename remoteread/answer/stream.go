package answer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/promwarp/promwarp/internal/leafpb"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/encoding"
)

// stream reads a streamed answer: frames that hold series and their encoded chunks, those of a
// query before those of the next.
func (a *Reader) stream(r io.Reader, parts []*Part) (testified bool, err error) {
	f := newFrameReader(r, a.MaxFrame)
	first := int64(0) // query of the current part
	i := 0
	var d *streamBuilder                                     // of the current part; nil before its first frame
	gone := func() bool { return parts[i].Ctx.Err() != nil } // no query waits for the current part
	end := func() (err error) {
		switch {
		case gone():
		case d == nil:
			parts[i].Sel = selection.Empty()
		default:
			parts[i].Sel, err = d.b.Finish()
		}
		d = nil
		return err
	}
	var series [][]byte
	for {
		frame, err := f.next()
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return false, err
		}
		query := int64(math.MaxInt64) // behind all parts
		if !ended {
			if series, query, err = parse(frame, series[:0]); err != nil {
				return false, err
			}
		}
		for i+1 < len(parts) && query >= first+parts[i].View.NumQueries() {
			if err := end(); err != nil {
				return false, err
			}
			first += parts[i].View.NumQueries()
			i++
		}
		switch {
		case ended:
			testified = d != nil && d.testified
			return testified, end()
		case gone():
			continue
		case d == nil:
			d = &streamBuilder{b: selection.NewBuilder(a.MaxBytes).Within(parts[i].Ctx), finder: newFinder(parts[i], false)}
			d.b.Expect(parts[i].Expected.Chunks, parts[i].Expected.Bytes)
		}
		if err = d.frame(series, query-first); err == nil {
			err = parts[i].Count(d.b.Bytes()+d.labelBytes, d.series)
		}
		if err != nil && !gone() {
			return false, err
		}
	}
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
	ofStore    bool // whether chunks are thanos.AggrChunks
	aggregates []leafpb.Aggr
	spans      []span // of the chunks of the current series, where there are aggregates
}

// parse appends the series in a prompb.ChunkedReadResponse to series, and returns them and the number
// of the query that it answers.
func parse(frame []byte, series [][]byte) (_ [][]byte, query int64, err error) {
	for f, err := range typed(frame, "a frame", protowire.BytesType, protowire.VarintType) {
		switch {
		case err != nil:
			return nil, 0, err
		case f.Num == 1:
			series = append(series, f.Bytes)
		default:
			query = int64(f.Value)
		}
	}
	return series, query, nil
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

// addSeries adds a prompb.ChunkedSeries, or a thanos.Series. A series whose chunks did not fit into one frame goes on in
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
		d.spans = d.spans[:0]
	}
	for f, err := range typed(rest, "a series", protowire.BytesType, protowire.BytesType) {
		if err == nil && f.Num == 1 {
			err = errLate
		}
		switch {
		case err != nil:
		case d.ofStore:
			err = d.storeChunk(f.Bytes)
		default:
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
	if e, minT, maxT, data, ok := plainChunk(b); ok {
		return d.add(e, minT, maxT, data)
	}
	const number = protowire.VarintType
	var numbers [3]uint64 // the fields min_time_ms, max_time_ms and type
	var data []byte
	for f, err := range typed(b, "a chunk", number, number, number, protowire.BytesType) {
		switch {
		case err != nil:
			return err
		case f.Num == 4:
			data = f.Bytes
		default:
			numbers[f.Num-1] = f.Value
		}
	}
	// The numbers of prompb.Chunk_Encoding are those of chunkenc.Encoding,
	// which holds only a byte. The builder checks the rest.
	if numbers[2] > math.MaxUint8 {
		return fmt.Errorf("series %s: unknown chunk encoding %d", d.labels, numbers[2])
	}
	return d.add(chunkenc.Encoding(numbers[2]), int64(numbers[0]), int64(numbers[1]), data)
}

// plainChunk reads a prompb.Chunk between the years 1971 and 2109, as nearly all are.
func plainChunk(b []byte) (e chunkenc.Encoding, minT, maxT int64, data []byte, ok bool) {
	if len(b) < 18 || b[0] != 0x08 || b[7] != 0x10 || b[14] != 0x18 || b[15] >= 0x80 || b[16] != 0x22 {
		return 0, 0, 0, nil, false
	}
	minT, from := plainTime(binary.LittleEndian.Uint64(b[1:]))
	maxT, to := plainTime(binary.LittleEndian.Uint64(b[8:]))
	n, size := binary.Uvarint(b[17:])
	data = b[17+max(size, 0):]
	return chunkenc.Encoding(b[15]), minT, maxT, data, from && to && size > 0 && n == uint64(len(data))
}

// add adds a chunk, whose header it checks, to the current series.
func (d *streamBuilder) add(e chunkenc.Encoding, minT, maxT int64, data []byte) error {
	if minT <= maxT { // the builder says otherwise
		if err := encoding.CheckHeader(e, minT, maxT, data); err != nil {
			return &selection.CorruptError{Series: d.labels, MinT: minT, Err: err}
		}
	}
	return d.b.Chunk(e, minT, maxT, data)
}

const (
	// frameBuffer is for how many bytes there is room at first. A larger frame makes the buffer grow.
	frameBuffer = 32 << 10

	crcSize   = 4
	maxHeader = binary.MaxVarintLen64 + crcSize
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frameReader reads the frames of a streamed answer. A frame of 300 bytes lies so:
//
//	ac 02         its length, 300, as a varint
//	xx xx xx xx   CRC-32C of its bytes, big-endian
//	...           300 bytes, a prompb.ChunkedReadResponse
//
// It does what remote.ChunkedReader does and three things more. That one takes
// an end just after the length or the checksum for the end of the stream. It
// allocates what the length says before a byte has come. And it hides the text
// that Prometheus appends to a stream when it fails on the way, which is the
// one thing that says what is wrong.
type frameReader struct {
	r     io.Reader
	limit uint64 // bytes of a frame
	buf   []byte // what has come and was not used; used again
	start int    // of that in buf
}

// newFrameReader returns a reader of frames of at most limit bytes each.
func newFrameReader(r io.Reader, limit int64) *frameReader {
	return &frameReader{r: r, limit: min(uint64(limit), math.MaxInt64-maxHeader), buf: make([]byte, 0, frameBuffer)}
}

// peek returns the next n bytes, or what there is of them and why there are not more. The buffer
// grows by as much as has come at most, so that a frame's length alone takes no memory.
func (f *frameReader) peek(n int) ([]byte, error) {
	for len(f.buf)-f.start < n {
		if f.start > 0 && cap(f.buf)-f.start < n {
			f.buf, f.start = append(f.buf[:0], f.buf[f.start:]...), 0
		}
		if len(f.buf) == cap(f.buf) {
			f.buf = slices.Grow(f.buf, min(n-len(f.buf), len(f.buf)))
		}
		k, err := f.r.Read(f.buf[len(f.buf):cap(f.buf)])
		f.buf = f.buf[:len(f.buf)+k]
		if err != nil && len(f.buf)-f.start < n {
			return f.buf[f.start:], err
		}
	}
	return f.buf[f.start:][:n], nil
}

// next returns the next frame, valid until the call after, or io.EOF.
func (f *frameReader) next() ([]byte, error) {
	head, err := f.peek(maxHeader)
	if len(head) == 0 {
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, &CutOffError{err}
	}
	size, n := binary.Uvarint(head)
	switch {
	case n < 0:
		return nil, f.text(&CorruptError{"the length of a frame is not a number"})
	case n == 0 || len(head) < n+crcSize:
		return nil, f.cut(err)
	case size > f.limit:
		return nil, &FrameTooLargeError{size}
	}
	n += crcSize
	all, err := f.peek(n + int(size))
	if err != nil {
		return nil, f.cut(err)
	}
	frame := all[n:]
	if crc32.Checksum(frame, castagnoli) != binary.BigEndian.Uint32(all[n-crcSize:]) {
		return nil, f.text(&CorruptError{fmt.Sprintf("the checksum of a frame of %d bytes is wrong", size)})
	}
	f.start += len(all)
	return frame, nil
}

// cut is the error for a frame that ends early because of err.
func (f *frameReader) cut(err error) error {
	if errors.Is(err, io.EOF) {
		// The body itself ended properly, so it may have been meant to.
		return f.text(&CutOffError{io.ErrUnexpectedEOF})
	}
	return &CutOffError{err}
}

// MaxLine is the most bytes of a store's own text that a message quotes.
const MaxLine = 256

// text returns an StoreError when what stands in place of a frame reads as text,
// and otherwise err.
func (f *frameReader) text(err error) error {
	const least = 8 // bytes; a few may look like text by chance
	// Wait for no more than is there: a real frame would be followed by others.
	b := f.buf[f.start:min(len(f.buf), f.start+4*MaxLine)]
	if len(b) < least {
		return err
	}
	for s := b; len(s) > 0; {
		c, n := utf8.DecodeRune(s)
		if c == utf8.RuneError && len(s) >= utf8.UTFMax || !unicode.IsPrint(c) && c != '\n' && c != '\t' && c != '\r' {
			return err
		}
		s = s[n:]
	}
	return &StoreError{Text: slices.Clone(b)}
}
