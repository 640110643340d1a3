// Package encode writes query results as JSON, byte for byte as Prometheus's API does and several
// times as fast.
//
// The bulk of a large answer is points. Times that series share are formatted once for an answer,
// and pieces of it are encoded on all cores and written in order, so that no more than a few of them
// are in memory.
//
// Only matrices and vectors are written here. What surrounds them (status, statistics, warnings),
// scalars, strings, errors and native histograms are left to Prometheus's encoder.
//
// Start with New.
package encode

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"runtime"
	"sync"

	"github.com/prometheus/prometheus/promql"
	v1 "github.com/prometheus/prometheus/web/api/v1"

	"github.com/promwarp/promwarp/internal/rescue"
	"github.com/promwarp/promwarp/plan"
)

// Codec is a v1.Codec that encodes every response as Prometheus's own v1.JSONCodec does.
type Codec struct{ v1.JSONCodec }

// Encode implements v1.Codec.
func (c Codec) Encode(resp *v1.Response) ([]byte, error) {
	a, err := New(resp)
	if err != nil {
		return nil, err
	}
	if a == nil {
		return c.JSONCodec.Encode(resp)
	}
	return a.Bytes(), nil
}

// Answer is a query's response that is ready to be encoded. It refers to the
// response's series, which must stay as they are for as long as it is used. An
// Answer may be encoded any number of times.
type Answer struct {
	head, tail []byte
	rows       rows
	cuts       []cursor
	weight     int
	histograms bool
	cores      int // that encode pieces
}

// rows are the series of a matrix or the samples of a vector.
type rows interface {
	// next returns the end of a piece of about the given weight that starts
	// at from, and the piece's weight: about how many points' work it is.
	next(from cursor, weight int) (cursor, int)
	// append encodes the rows between two cursors.
	append(b []byte, from, to cursor) []byte
}

// cursor is a place in rows: before a point of a row. The place after a row's
// last point is the start of the next row.
type cursor struct{ row, point int }

const (
	// pieceWeight is how many points a piece has, about 150 KB of text.
	pieceWeight = 4096
	// leastPiece is how many points it has at least where each core is to have some.
	leastPiece = 1024
)

// New returns the encoding of a response. It is nil, without an error, when the
// response is not a matrix or a vector; Codec encodes these too. An error is
// one of Prometheus's encoder.
func New(resp *v1.Response) (*Answer, error) {
	a, err := newAnswer(resp, pieceWeight)
	if a == nil || err != nil || a.cores == 1 || a.weight < pieceWeight {
		return a, err
	}
	if piece := max(a.weight/(4*a.cores), leastPiece); piece < pieceWeight {
		a.cut(piece)
	}
	return a, nil
}

func newAnswer(resp *v1.Response, piece int) (*Answer, error) {
	d, ok := resp.Data.(*v1.QueryData)
	if !ok || d == nil {
		return nil, nil
	}
	a := &Answer{cores: runtime.GOMAXPROCS(0)}
	switch r := d.Result.(type) {
	case *plan.Matrix:
		a.rows = matrix{newSteps(r), len(r.Rows)}
	case promql.Matrix:
		m := matrix{points(r), len(r)}
		a.rows, a.histograms = m, m.hasHistograms()
	case promql.Vector:
		a.rows, a.histograms = vector(r), vector(r).hasHistograms()
	default:
		return nil, nil
	}
	var err error
	if a.head, a.tail, err = envelope(resp, d); err != nil {
		return nil, err
	}
	a.cut(piece)
	return a, nil
}

// cut cuts the rows into pieces of a weight.
func (a *Answer) cut(piece int) {
	a.cuts, a.weight = []cursor{{}}, 0
	for {
		c, w := a.rows.next(a.cuts[len(a.cuts)-1], piece)
		if w == 0 {
			return
		}
		a.cuts, a.weight = append(a.cuts, c), a.weight+w
	}
}

// noRows is how Prometheus's encoder writes a result without rows. Only the
// status and the result's type come before it.
var noRows = []byte(`"result":[]`)

// envelope has Prometheus's encoder write the response with an empty result in
// the place of its own, and returns what it writes before and after the rows.
func envelope(resp *v1.Response, d *v1.QueryData) (head, tail []byte, err error) {
	without := *d
	without.Result = promql.Matrix{}
	around := *resp
	around.Data = &without
	b, err := v1.JSONCodec{}.Encode(&around)
	if err != nil {
		return nil, nil, err
	}
	i := bytes.Index(b, noRows)
	if i < 0 {
		return nil, nil, fmt.Errorf("encode: no %s in a response of Prometheus's encoder", noRows)
	}
	i += len(noRows) - 1
	return b[:i:i], b[i:], nil
}

// Head is what comes before the first row. It is not empty.
func (a *Answer) Head() []byte { return a.head }

// Points is about how many points' work the encoding is.
func (a *Answer) Points() int { return a.weight }

// Histograms reports whether there are native histograms in the answer.
// Encoding a malformed one panics, as Prometheus's encoder does.
func (a *Answer) Histograms() bool { return a.histograms }

// Bytes returns the whole answer in memory of its own.
func (a *Answer) Bytes() []byte {
	b := a.rows.append(bytes.Clone(a.head), a.cuts[0], a.cuts[len(a.cuts)-1])
	return append(b, a.tail...)
}

// WriteRest writes what comes after Head to w. It returns when rows are no longer read.
func (a *Answer) WriteRest(w io.Writer) (written int64, err error) {
	write := func(b []byte) bool {
		var n int
		n, err = w.Write(b)
		written += int64(n)
		return err == nil
	}
	for e := range a.encoded() {
		ok := write(*e)
		buffers.Put(e)
		if !ok {
			return written, err
		}
	}
	write(a.tail)
	return written, err
}

// buffers hold the text of pieces.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// encode encodes a piece into a buffer.
func (a *Answer) encode(i int) *[]byte {
	b := buffers.Get().(*[]byte)
	*b = a.rows.append((*b)[:0], a.cuts[i], a.cuts[i+1])
	return b
}

// encoded are the texts of all pieces, in order, which cores encode ahead of who reads them. A panic
// reaches who ranges over them, when none is encoded any more.
func (a *Answer) encoded() iter.Seq[*[]byte] {
	return func(yield func(*[]byte) bool) {
		pieces := len(a.cuts) - 1
		if min(a.cores, pieces) < 2 {
			for i := range pieces {
				if !yield(a.encode(i)) {
					return
				}
			}
			return
		}
		var wg sync.WaitGroup
		var panics rescue.Catcher
		quit, ahead := make(chan struct{}), make(chan chan *[]byte, a.cores)
		defer panics.Rethrow()
		defer wg.Wait()
		defer close(quit)
		wg.Go(func() {
			defer close(ahead)
			for i := range pieces {
				piece := make(chan *[]byte, 1)
				select {
				case ahead <- piece:
				case <-quit:
					return
				}
				wg.Go(func() {
					defer close(piece)
					defer panics.Catch()
					piece <- a.encode(i)
				})
			}
		})
		for piece := range ahead {
			b, ok := <-piece
			if !ok || !yield(b) {
				return
			}
		}
	}
}
