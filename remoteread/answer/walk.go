package answer

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/promwarp/promwarp/remoteread/external"
	"github.com/promwarp/promwarp/remoteread/wire"
)

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
	startSeries([]wire.Label) error
	chunk(wireChunk) error
}

// walker goes through frames, by hand and not with prompb, which would copy
// every chunk into an object of its own first.
type walker struct {
	sink   frameSink
	view   *external.View // or nil
	labels []wire.Label   // for reuse

	testified bool // whether the witness came as it should
}

// frame goes through a prompb.ChunkedReadResponse that answers the given query, counted from the
// first of the part. One without a series is an error, as an answer of such frames might never end:
// zeros are frames of no bytes whose checksum is right.
func (w *walker) frame(b []byte, query int64) error {
	if query != 0 {
		return w.other(b, query)
	}
	some := false
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return wire.Malformed("a frame", n)
		}
		b = b[n:]
		switch {
		case num == 1 && typ == protowire.BytesType: // chunked_series
			some = true
			v, n := protowire.ConsumeBytes(b)
			if n < 0 {
				return wire.Malformed("a series", n)
			}
			b = b[n:]
			if err := w.series(v); err != nil {
				return err
			}
		case num == 2 && typ == protowire.VarintType: // query_index
			_, n := protowire.ConsumeVarint(b)
			if n < 0 {
				return wire.Malformed("the index of a query", n)
			}
			b = b[n:]
		case num <= 2:
			return wire.WrongType("a frame", num, typ)
		default:
			n := protowire.ConsumeFieldValue(num, typ, b)
			if n < 0 {
				return wire.Malformed("a frame", n)
			}
			b = b[n:]
		}
	}
	if !some {
		return errNoSeries
	}
	return nil
}

var errNoSeries = errors.New("a frame without a series")

// other goes through a prompb.ChunkedReadResponse that answers another query of a part than the
// first. Its series are a clash, but for the witness.
func (w *walker) other(b []byte, query int64) error {
	var series [][]byte
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return wire.Malformed("a frame", n)
		}
		b = b[n:]
		if num == 1 && typ == protowire.BytesType {
			if v, n := protowire.ConsumeBytes(b); n > 0 {
				series = append(series, v)
			}
		}
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			return wire.Malformed("a frame", n)
		}
		b = b[n:]
	}
	switch {
	case w.view == nil:
		return fmt.Errorf("the answer is for query %d of a request with one query", query)
	case len(series) == 0:
		return errNoSeries
	case query == w.view.WitnessIndex():
		for _, s := range series {
			w.testified = w.testified || w.view.Testifies(s)
		}
		return nil
	}
	return w.view.Clash(query)
}

// queryOf is the number of the query that a prompb.ChunkedReadResponse answers, which comes last in
// it. What is wrong with it is for the walker to say.
func queryOf(b []byte) (query int64) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return query
		}
		b = b[n:]
		if num == 2 && typ == protowire.VarintType {
			if v, n := protowire.ConsumeVarint(b); n > 0 {
				query = int64(v)
			}
		}
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			return query
		}
		b = b[n:]
	}
	return query
}

// strippedSeries begins a series that has external labels.
func (w *walker) strippedSeries(b []byte) error {
	if err := w.findLabels(b); err != nil {
		return err
	}
	ls, err := w.view.Strip(w.labels)
	if err != nil {
		return err
	}
	return w.sink.startSeries(ls)
}

// series goes through a prompb.ChunkedSeries, twice: nothing says that all
// labels come before the first chunk.
func (w *walker) series(b []byte) error {
	if w.view.Adds() {
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
		num, v, n, err := wire.NextField(b, "a series", 2)
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
		w.labels = append(w.labels, l)
	}
	return nil
}

// walkChunk goes through a prompb.Chunk.
func walkChunk(b []byte) (c wireChunk, err error) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return c, wire.Malformed("a chunk", n)
		}
		b = b[n:]
		switch {
		case num <= 3 && typ == protowire.VarintType:
			v, n := protowire.ConsumeVarint(b)
			if n < 0 {
				return c, wire.Malformed("a chunk", n)
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
				return c, wire.Malformed("a chunk's data", n)
			}
			b = b[n:]
			c.data = v
		case num <= 4:
			return c, wire.WrongType("a chunk", num, typ)
		default:
			n := protowire.ConsumeFieldValue(num, typ, b)
			if n < 0 {
				return c, wire.Malformed("a chunk", n)
			}
			b = b[n:]
		}
	}
	return c, nil
}
