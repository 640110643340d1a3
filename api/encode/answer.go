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
	// Explanation, if it is not nil, returns what is said, as JSON, once the series are encoded.
	Explanation func() any
}

// Answer is a Result that is ready to be encoded. It refers to the
// value's series, which must stay as they are for as long as it is used. An
// Answer may be encoded any number of times.
type Answer struct {
	head, tail []byte // what comes before the first row, and after the last
	explain    func() any
	rows       matrix
	end        cursor // of the rows
	weight     int    // about how many points' work the encoding is
	cores      int    // that encode pieces
}

// cursor is a place in rows: before a point of a row. The place after a row's
// last point is the start of the next row.
type cursor struct{ row, point int }

const (
	// pieceWeight is how many points a piece has, about 100 KB of text: few enough for several cores to
	// have some of a small answer, and as many as one write may have.
	pieceWeight = 3072
	// minStreamed is from how many points on an answer is streamed, about 30 KB.
	minStreamed = 1024
)

// New returns the encoding of a result. An error is one of JSON.
func New(r Result) (*Answer, error) {
	a := &Answer{cores: runtime.GOMAXPROCS(0), explain: r.Explanation}
	a.head = append(make([]byte, 0, 128), `{"status":"success","data":{"resultType":"`...)
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
	a.end, a.weight = a.rows.next(cursor{}, math.MaxInt)
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
	return a, err
}

// Begin returns what is to be written first, and whether that is all: of an answer that is small, or
// that has native histograms. Encoding a malformed one panics, as Prometheus's encoder does, which has
// to happen before a status is sent.
func (a *Answer) Begin() (text []byte, all bool) {
	if p, _ := a.rows.table.(points); a.weight >= minStreamed && !slices.ContainsFunc(p, func(s promql.Series) bool { return len(s.Histograms) > 0 }) {
		return a.head, false
	}
	b := a.rows.append(slices.Clone(a.head), cursor{}, a.end)
	return append(b, a.ending()...), true
}

// ending is what comes after the last row, once that is encoded.
func (a *Answer) ending() []byte {
	if a.explain == nil {
		return a.tail
	}
	text, err := JSON.Marshal(a.explain())
	if err != nil {
		panic(err)
	}
	last := len(a.tail) - 1 // the brace that closes all
	return slices.Concat(a.tail[:last], []byte(`,"explanation":`), text, a.tail[last:])
}

// WriteRest writes what comes after the head, which Begin returns, to w. It returns when rows are no
// longer read.
func (a *Answer) WriteRest(w io.Writer) error {
	for e := range a.encoded() {
		_, err := w.Write(*e)
		buffers.Put(e)
		if err != nil {
			return err
		}
	}
	_, err := w.Write(a.ending())
	return err
}

// buffers hold the text of pieces.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// encode encodes a piece into a buffer.
func (a *Answer) encode(from, to cursor) *[]byte {
	b := buffers.Get().(*[]byte)
	*b = a.rows.append((*b)[:0], from, to)
	return b
}

// pieces are the ends of the pieces that rows are encoded in.
func (a *Answer) pieces() iter.Seq2[cursor, cursor] {
	return func(yield func(from, to cursor) bool) {
		for from := (cursor{}); from != a.end; {
			to, _ := a.rows.next(from, pieceWeight)
			if !yield(from, to) {
				return
			}
			from = to
		}
	}
}

// encoded are the texts of all pieces, in order, which cores encode ahead of who reads them. A panic
// reaches who ranges over them, when none is encoded any more.
func (a *Answer) encoded() iter.Seq[*[]byte] {
	return func(yield func(*[]byte) bool) {
		if a.cores < 2 || a.weight <= pieceWeight {
			for from, to := range a.pieces() {
				if !yield(a.encode(from, to)) {
					return
				}
			}
			return
		}
		var encoders errgroup.Group
		defer func() {
			if err := encoders.Wait(); err != nil {
				panic(err)
			}
		}()
		ahead := make(chan chan *[]byte, a.cores)
		next := func() bool {
			b, ok := <-<-ahead
			return ok && yield(b)
		}
		for from, to := range a.pieces() {
			if len(ahead) == cap(ahead) && !next() {
				return
			}
			piece := make(chan *[]byte, 1)
			ahead <- piece
			encoders.Go(func() error {
				defer close(piece)
				return parallel.Rescue(func() error { piece <- a.encode(from, to); return nil })
			})
		}
		for len(ahead) > 0 && next() {
		}
	}
}
