package answer

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/remoteread/external"
	"github.com/promwarp/promwarp/remoteread/wire"
	"github.com/promwarp/promwarp/selection"
)

// samples reads an answer of samples and encodes them into chunks. Where chunks could have been had,
// it fails with ErrUnfit on one that does not say all that they would.
func (a *Reader) samples(r io.Reader, parts []*Part) (testified bool, err error) {
	s := samplesReaders.Get().(*samplesReader)
	defer s.release()
	data, err := s.read(r, a.MaxAnswer)
	if err != nil {
		return false, err
	}
	results, testified, err := resultsOf(data, parts)
	if err != nil {
		return false, err
	}
	for i, p := range parts {
		if err := s.part(a, results[i], p); err != nil && p.Ctx.Err() == nil {
			return testified, err
		}
	}
	return testified, nil
}

// part makes the selection of p from its prompb.QueryResult.
func (s *samplesReader) part(a *Reader, result []byte, p *Part) (err error) {
	e := selection.Expected(p.Ctx)
	s.begin()
	s.expected.series = e.Series
	s.exact, s.signed, s.view, s.asked = p.Exact, e.Signed, p.View, p.selector()
	b := selection.NewBuilder(a.MaxBytes).Within(p.Ctx)
	b.Grow(len(s.expected.series))
	for n := 0; len(result) > 0; n++ {
		if n%1024 == 0 && p.Ctx.Err() != nil {
			return p.Ctx.Err()
		}
		if result, err = s.next(result, b); err != nil {
			return err
		}
	}
	s.arrange(b)
	sel, err := b.Finish()
	if err != nil {
		return err
	}
	if err := p.Count(b.Bytes()+s.labelBytes, int64(sel.NumSeries())); err != nil {
		return err
	}
	p.Sel = sel
	return nil
}

// ErrUnfit is for an answer of samples of which chunks would say more: samples of
// value 0 that may be -0, as most stores write them alike, or native histograms.
var ErrUnfit = errors.New("what the samples are is only certain from chunks")

// samplesReader reads answers of samples. It is used again for the sake of its memory.
type samplesReader struct {
	compressed, data []byte
	expected         index
	exact            bool                  // whether native histograms, and values that may be 0 or -0, are unfit
	signed           func(series int) bool // see selection.Expectation
	view             *external.View        // or nil

	labels     []wire.Label
	maker      wire.LabelMaker
	asked      selector // expected series are known to be of it
	current    labels.Labels
	zero       bool // whether one of the values that follow may be 0 or -0
	times      []int64
	values     []float64
	labelBytes int64

	came []came // the series in the builder
}

// came is a series that came.
type came struct {
	labels   labels.Labels
	expected int // its number among the expected series; -1 for none
}

// mostCompressed is what snappy can compress by: 64 bytes take 3.
const mostCompressed = 64/3 + 1

// keepSamples is the most bytes of a buffer that is kept for other answers.
const keepSamples = 4 << 20

var samplesReaders = sync.Pool{New: func() any { return &samplesReader{maker: wire.NewLabelMaker()} }}

// release hands the memory back. Nothing that was read may be used after.
func (s *samplesReader) release() {
	if cap(s.compressed) > keepSamples || cap(s.data) > keepSamples {
		return
	}
	s.begin()
	samplesReaders.Put(s)
}

// begin forgets the part that was read before.
func (s *samplesReader) begin() {
	clear(s.came)
	s.came, s.labelBytes, s.current, s.view = s.came[:0], 0, labels.Labels{}, nil
	s.asked = selector{}
	s.expected = index{}
}

// read reads the answer and decompresses it, if neither makes more than most bytes. It reads no more
// than the length which comes first allows.
func (s *samplesReader) read(r io.Reader, most int64) ([]byte, error) {
	b := slices.Grow(s.compressed[:0], 64<<10)
	for {
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		s.compressed = b
		if int64(len(b)) > most {
			return nil, &TooLargeError{fmt.Sprintf("more than %d", most)}
		}
		// Where there is no length yet, or a wrong one, more is read and the reason given below.
		if n, err := snappy.DecodedLen(b); err == nil && int64(n) <= most && len(b) > snappy.MaxEncodedLen(n) {
			return nil, &wire.CorruptError{Text: fmt.Sprintf("the answer cannot be decompressed: it goes on behind the %d bytes that it says it holds", n)}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, &wire.CutOffError{Err: err}
		}
		if len(b) == cap(b) {
			b = slices.Grow(b, len(b))
		}
	}
	// The length comes first in the bytes, before anything is allocated for it.
	n, err := snappy.DecodedLen(b)
	if err != nil {
		return nil, &wire.CorruptError{Text: fmt.Sprintf("the answer is not compressed with snappy: %v", err)}
	}
	if int64(n) > most {
		return nil, &TooLargeError{fmt.Sprint(n)}
	}
	if n > mostCompressed*len(b) {
		return nil, &wire.CorruptError{Text: fmt.Sprintf("the answer cannot be decompressed: %d bytes do not hold the %d that they say", len(b), n)}
	}
	s.data = slices.Grow(s.data[:0], n)[:n]
	data, err := snappy.Decode(s.data, b)
	if err != nil {
		return nil, &wire.CorruptError{Text: fmt.Sprintf("the answer cannot be decompressed: %v", err)}
	}
	return data, nil
}

// arrange puts the series in b into label order where all were expected. A Prometheus sends series
// as samples in the order in which they were first seen. The builder sorts the others.
func (s *samplesReader) arrange(b *selection.Builder) {
	byNumber := func(a, b came) int { return cmp.Compare(a.expected, b.expected) }
	if slices.IsSortedFunc(s.came, byNumber) || slices.ContainsFunc(s.came, func(c came) bool { return c.expected < 0 }) {
		return
	}
	order := make([]int32, len(s.came))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return byNumber(s.came[a], s.came[b]) })
	b.Arrange(order)
}
