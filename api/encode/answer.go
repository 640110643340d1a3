// Package encode writes query results as JSON, byte for byte as Prometheus's API does and several
// times as fast.
//
// The bulk of a large answer is points. Times that series share are formatted once for an answer,
// and pieces of it are encoded on all cores and written in order, so that no more than a few of them
// are in memory. What surrounds the points (statistics, warnings) is left to the JSON library that
// Prometheus uses.
//
// Start with New.
package encode

import (
	"io"
	"iter"
	"math"
	"runtime"
	"slices"
	"sync"

	jsoniter "github.com/json-iterator/go"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/stats"
	"golang.org/x/sync/errgroup"

	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
)

// JSON writes values as Prometheus's API does. Labels, series, points and histograms are not among
// them: what New and AppendLabels write is.
var JSON = jsoniter.ConfigCompatibleWithStandardLibrary

// Result is what a query's response says.
type Result struct {
	Value           parser.Value     // a *plan.Matrix, or one of package promql
	Stats           stats.QueryStats // nil says nothing
	Warnings, Infos []string
}

// Answer is a Result that is ready to be encoded. It refers to the
// value's series, which must stay as they are for as long as it is used. An
// Answer may be encoded any number of times.
type Answer struct {
	head, tail []byte
	rows       matrix
	cuts       []cursor
	weight     int
	histograms bool
	cores      int // that encode pieces
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

// New returns the encoding of a result. An error is one of JSON.
func New(r Result) (*Answer, error) {
	a, err := newAnswer(r)
	piece := pieceWeight
	if a.cores > 1 && a.weight >= pieceWeight {
		piece = min(max(a.weight/(4*a.cores), leastPiece), pieceWeight)
	}
	a.cut(piece)
	return a, err
}

// newAnswer returns an answer in one piece.
func newAnswer(r Result) (*Answer, error) {
	a := &Answer{cores: runtime.GOMAXPROCS(0)}
	a.head = append(a.head, `{"status":"success","data":{"resultType":"`...)
	a.head = append(append(a.head, r.Value.Type()...), `","result":`...)
	var err error
	add := func(to *[]byte, name string, value any) {
		text, failed := JSON.Marshal(value)
		if failed != nil {
			err = failed
		}
		*to = append(append(*to, name...), text...)
	}
	switch v := r.Value.(type) {
	case *plan.Matrix:
		a.rows = matrix{table: newSteps(v), size: len(v.Rows)}
	case promql.Matrix:
		a.rows = matrix{table: points(v), size: len(v)}
	case promql.Vector:
		a.rows = matrix{table: pointsOf(v), size: len(v), single: true}
	}
	a.histograms = a.rows.hasHistograms()
	switch r.Value.Type() {
	case parser.ValueTypeMatrix, parser.ValueTypeVector:
		a.head, a.tail = append(a.head, '['), append(a.tail, ']')
	default: // a number or a text, which is no row
		add(&a.head, "", r.Value)
	}
	if r.Stats != nil {
		add(&a.tail, `,"stats":`, r.Stats)
	}
	a.tail = append(a.tail, '}')
	if len(r.Warnings) > 0 {
		add(&a.tail, `,"warnings":`, r.Warnings)
	}
	if len(r.Infos) > 0 {
		add(&a.tail, `,"infos":`, r.Infos)
	}
	a.tail = append(a.tail, '}')
	a.cut(math.MaxInt)
	return a, err
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

// Head is what comes before the first row. It is not empty.
func (a *Answer) Head() []byte { return a.head }

// Points is about how many points' work the encoding is.
func (a *Answer) Points() int { return a.weight }

// Histograms reports whether there are native histograms in the answer.
// Encoding a malformed one panics, as Prometheus's encoder does.
func (a *Answer) Histograms() bool { return a.histograms }

// Bytes returns the whole answer in memory of its own.
func (a *Answer) Bytes() []byte {
	b := a.rows.append(slices.Clone(a.head), a.cuts[0], a.cuts[len(a.cuts)-1])
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
		n := len(a.cuts) - 1
		if min(a.cores, n) < 2 {
			for i := range n {
				if !yield(a.encode(i)) {
					return
				}
			}
			return
		}
		var pieces errgroup.Group
		quit, ahead := make(chan struct{}), make(chan chan *[]byte, a.cores)
		defer func() {
			close(quit)
			if err := pieces.Wait(); err != nil {
				panic(err)
			}
		}()
		pieces.Go(func() error {
			defer close(ahead)
			for i := range n {
				piece := make(chan *[]byte, 1)
				select {
				case ahead <- piece:
				case <-quit:
					return nil
				}
				pieces.Go(func() error {
					defer close(piece)
					return parallel.Rescue(func() error { piece <- a.encode(i); return nil })
				})
			}
			return nil
		})
		for piece := range ahead {
			b, ok := <-piece
			if !ok || !yield(b) {
				return
			}
		}
	}
}
