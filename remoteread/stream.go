package remoteread

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/prometheus/common/model"
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

// wireLabel is a label as it lies in a frame.
type wireLabel struct{ name, value []byte }

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

// walkLabel goes through a prompb.Label.
func walkLabel(b []byte) (l wireLabel, err error) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return l, malformedField("a label", n)
		}
		b = b[n:]
		if num > 2 {
			n := protowire.ConsumeFieldValue(num, typ, b)
			if n < 0 {
				return l, malformedField("a label", n)
			}
			b = b[n:]
			continue
		}
		if typ != protowire.BytesType {
			return l, wrongType("a label", num, typ)
		}
		v, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return l, malformedField("a label", n)
		}
		b = b[n:]
		if num == 1 {
			l.name = v
		} else {
			l.value = v
		}
	}
	return l, nil
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

func malformedField(where string, n int) error {
	return fmt.Errorf("the answer is not valid protobuf: in %s: %w", where, protowire.ParseError(n))
}

func wrongType(where string, num protowire.Number, typ protowire.Type) error {
	return fmt.Errorf("the answer is not valid protobuf: field %d of %s has wire type %d", num, where, typ)
}

// streamBuilder puts the series of frames into a selection.
type streamBuilder struct {
	b          *selection.Builder
	scratch    labels.ScratchBuilder
	labels     labels.Labels // of the current series
	expected   expected
	labelBytes int64
	series     int64
}

func newStreamBuilder(limit int64) *streamBuilder {
	d := &streamBuilder{b: selection.NewBuilder(limit), scratch: labels.NewScratchBuilder(0)}
	// What it is given lies in a frame and must be copied.
	d.scratch.SetUnsafeAdd(true)
	return d
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
		if d.labels, err = d.make(ls); err != nil {
			return err
		}
	}
	d.labelBytes += int64(d.labels.ByteSize())
	d.series++
	d.b.Series(d.labels)
	return nil
}

// make makes labels of ls, which it checks.
func (d *streamBuilder) make(ls []wireLabel) (labels.Labels, error) {
	d.scratch.Reset()
	for i, l := range ls {
		if err := checkLabel(str(l.name), str(l.value)); err != nil {
			return labels.Labels{}, fmt.Errorf("series %s: %w", describe(ls), err)
		}
		if i > 0 {
			switch prev := ls[i-1].name; strings.Compare(str(prev), str(l.name)) {
			case 0:
				return labels.Labels{}, fmt.Errorf("series %s: label %q appears twice", describe(ls), l.name)
			case 1:
				return labels.Labels{}, fmt.Errorf("series %s: labels are not sorted: %q comes after %q", describe(ls), l.name, prev)
			}
		}
		d.scratch.Add(str(l.name), str(l.value))
	}
	return d.scratch.Labels(), nil
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

// maxLabel is the most bytes of a label's name or value that labels.Labels can
// hold; it panics on longer ones.
const maxLabel = 1<<24 - 1

// checkLabel checks one label as Prometheus does on what it reads.
func checkLabel(name, value string) error {
	switch {
	case name == "":
		return errors.New("a label has no name")
	case len(name) > maxLabel || len(value) > maxLabel:
		return fmt.Errorf("label %q is longer than %d bytes", short([]byte(name)), maxLabel)
	case !utf8.ValidString(name):
		return fmt.Errorf("label name %q is not valid UTF-8", name)
	case !utf8.ValidString(value):
		return fmt.Errorf("the value of label %q is not valid UTF-8", name)
	case name == model.MetricNameLabel && value == "":
		return errors.New("the metric name is empty")
	}
	return nil
}

// maxSeriesText is the most bytes of a series in a message, about.
const maxSeriesText = 512

// describe is the text of labels that may not be valid.
func describe(ls []wireLabel) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, l := range ls {
		if i > 0 {
			b.WriteString(", ")
		}
		if b.Len() > maxSeriesText {
			b.WriteString("…")
			break
		}
		fmt.Fprintf(&b, "%s=%q", short(l.name), short(l.value))
	}
	b.WriteByte('}')
	return b.String()
}

// short is b, or the beginning of a very long one.
func short(b []byte) string {
	const most = 128
	if len(b) > most {
		return strings.ToValidUTF8(string(b[:most]), "�") + "…"
	}
	return strings.ToValidUTF8(string(b), "�")
}

// str is b as a string that shares its bytes.
func str(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
