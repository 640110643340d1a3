// Package encode writes query results as JSON, byte for byte as Prometheus's
// API does and several times as fast.
//
// The bulk of a large answer is points. Here a timestamp that several series
// share is formatted once (see steps and grid), the digits of a value are found by exact
// integer arithmetic wherever that is possible (see putFloat), and pieces of the
// answer are encoded on all cores and written in order, so that no more than a
// few of them are in memory.
//
// Only matrices and vectors are written here. What surrounds them (status,
// statistics, warnings), scalars, strings, errors and native histograms are left
// to Prometheus's encoder.
package encode

import (
	"io"
	"runtime"

	"github.com/prometheus/prometheus/promql"
	v1 "github.com/prometheus/prometheus/web/api/v1"

	"github.com/promwarp/promwarp/plan"
)

// Answer is a query's response that is ready to be encoded. It refers to the
// response's series, which must stay as they are for as long as it is used. An
// Answer may be encoded any number of times.
type Answer struct {
	head, tail []byte
	rows       rows
	cuts       []cursor
	weight     int
	histograms bool
	cores      int // 0 is all
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

// New returns the encoding of a response. It is nil, without an error, when the
// response is not a matrix or a vector; Codec encodes these too. An error is
// one of Prometheus's encoder.
func New(resp *v1.Response) (*Answer, error) { return newAnswer(resp, pieceWeight) }

func newAnswer(resp *v1.Response, weight int) (*Answer, error) {
	d, ok := resp.Data.(*v1.QueryData)
	if !ok || d == nil {
		return nil, nil
	}
	a := &Answer{}
	end := 0
	switch r := d.Result.(type) {
	case *plan.Matrix:
		a.rows, end = matrix{newSteps(r), len(r.Rows)}, len(r.Rows)
	case promql.Matrix:
		m := matrix{&points{series: r, grid: newGrid(r)}, len(r)}
		a.rows, a.histograms, end = m, m.hasHistograms(), len(r)
	case promql.Vector:
		v := newVector(r)
		a.rows, a.histograms, end = v, v.histograms, len(r)
	default:
		return nil, nil
	}
	var err error
	if a.head, a.tail, err = envelope(resp, d); err != nil {
		return nil, err
	}
	a.cut(end, func(int) int { return weight })
	if cores := runtime.GOMAXPROCS(0); a.weight >= minParallel && cores > 1 && weight >= smaller {
		whole := a.weight
		a.cut(end, func(before int) int {
			return min(weight, max(weight/smaller, (whole-before)/(rounds*cores)))
		})
	}
	return a, nil
}

// An answer that is encoded on several cores is cut so that each core has some pieces, and so that
// all end at about the same time: towards the end pieces become smaller, down to 1/smaller, so that
// each core has rounds more of them at any time.
const (
	rounds  = 3
	smaller = 4
)

// cut cuts the rows before the given one into pieces, each of the weight that weight returns for
// what comes before it.
func (a *Answer) cut(end int, weight func(before int) int) {
	a.cuts, a.weight = a.cuts[:0], 0
	for c := (cursor{}); c.row < end; {
		a.cuts = append(a.cuts, c)
		var w int
		c, w = a.rows.next(c, weight(a.weight))
		a.weight += w
	}
	a.cuts = append(a.cuts, cursor{row: end})
}

// Head is what comes before the first row. It is not empty.
func (a *Answer) Head() []byte { return a.head }

// Points is about how many points' work the encoding is.
func (a *Answer) Points() int { return a.weight }

// Histograms reports whether there are native histograms in the answer.
// Encoding a malformed one panics, as Prometheus's encoder does.
func (a *Answer) Histograms() bool { return a.histograms }

// pieces is into how many pieces the rows are cut.
func (a *Answer) pieces() int { return len(a.cuts) - 1 }

// appendPiece encodes one piece of the rows.
func (a *Answer) appendPiece(b []byte, i int) []byte {
	return a.rows.append(b, a.cuts[i], a.cuts[i+1])
}

// WriteTo writes the whole answer to w. It implements io.WriterTo.
func (a *Answer) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(a.head)
	if err != nil {
		return int64(n), err
	}
	rest, err := a.WriteRest(w)
	return int64(n) + rest, err
}

// WriteRest writes what comes after Head to w.
func (a *Answer) WriteRest(w io.Writer) (int64, error) {
	n, err := a.writeRows(w)
	if err != nil {
		return n, err
	}
	k, err := w.Write(a.tail)
	return n + int64(k), err
}

// Bytes returns the whole answer in memory of its own.
func (a *Answer) Bytes() []byte {
	c := collector{share: len(a.head) + len(a.tail), pieces: a.pieces()}
	_, _ = a.WriteTo(&c) // a collector takes everything
	return c.b
}

// collector is an io.Writer that keeps what is written. It makes room for the
// whole when it has seen the first piece.
type collector struct {
	b      []byte
	share  int // bytes around the pieces
	pieces int
}

func (c *collector) Write(p []byte) (int, error) {
	if len(c.b)+len(p) > cap(c.b) && c.pieces > 0 && len(c.b) > 0 {
		// Pieces are of about one size. A little more spares most answers a
		// second growth.
		want := c.share + len(p)*c.pieces
		if c.pieces > 1 {
			want += want / 16
		}
		c.pieces = 0
		b := make([]byte, len(c.b), max(want, len(c.b)+len(p)))
		copy(b, c.b)
		c.b = b
	}
	c.b = append(c.b, p...)
	return len(p), nil
}
