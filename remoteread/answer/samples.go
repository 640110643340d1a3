package answer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage/remote"
	"google.golang.org/protobuf/encoding/protowire"

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
	s.finder, s.labelBytes = newFinder(p, true), 0
	s.exact, s.signed = p.Exact, p.Expected.Signed
	b := selection.NewBuilder(a.MaxBytes).Within(p.Ctx)
	n := 0
	for f, err := range typed(result, "a result", protowire.BytesType) {
		if n++; n%1024 == 0 && p.Ctx.Err() != nil {
			return p.Ctx.Err()
		}
		if err == nil {
			err = s.add(f.Bytes, b)
		}
		if err != nil {
			return err
		}
	}
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
	finder
	compressed, data []byte
	exact            bool                  // whether native histograms, and values that may be 0 or -0, are unfit
	signed           func(series int) bool // see selection.Expectation

	zero       bool // whether one of the values that follow may be 0 or -0
	times      []int64
	values     []float64
	labelBytes int64
}

// mostCompressed is what snappy can compress by: 64 bytes take 3.
const mostCompressed = 64/3 + 1

// keepSamples is the most bytes of a buffer that is kept for other answers.
const keepSamples = 4 << 20

var samplesReaders = sync.Pool{New: func() any { return new(samplesReader) }}

// release hands the memory back. Nothing that was read may be used after.
func (s *samplesReader) release() {
	if cap(s.compressed) > keepSamples || cap(s.data) > keepSamples {
		return
	}
	s.finder, s.signed = finder{}, nil
	samplesReaders.Put(s)
}

// read reads the answer and decompresses it, if neither makes more than most bytes.
func (s *samplesReader) read(r io.Reader, most int64) ([]byte, error) {
	in := bytes.NewBuffer(s.compressed[:0])
	_, err := in.ReadFrom(io.LimitReader(r, most+1))
	b := in.Bytes()
	s.compressed = b
	// The length comes first in the bytes, before anything is allocated for it.
	n, damaged := snappy.DecodedLen(b)
	switch {
	case damaged == nil && int64(n) > most:
		return nil, &TooLargeError{fmt.Sprint(n)}
	case err != nil:
		return nil, &CutOffError{Err: err}
	case int64(len(b)) > most:
		return nil, &TooLargeError{fmt.Sprintf("more than %d", most)}
	case damaged != nil:
		return nil, &CorruptError{Text: fmt.Sprintf("the answer is not compressed with snappy: %v", damaged)}
	}
	if n > mostCompressed*len(b) {
		return nil, &CorruptError{Text: fmt.Sprintf("the answer cannot be decompressed: %d bytes do not hold the %d that they say", len(b), n)}
	}
	s.data = slices.Grow(s.data[:0], n)[:n]
	data, err := snappy.Decode(s.data, b)
	if err != nil {
		return nil, &CorruptError{Text: fmt.Sprintf("the answer cannot be decompressed: %v", err)}
	}
	return data, nil
}

// resultsOf finds the prompb.QueryResult of each part's first query in a prompb.ReadResponse. Those
// of further ones must be empty, but for that of the witness, which comes last and of which it
// reports whether it testified.
func resultsOf(b []byte, parts []*Part) (firsts [][]byte, testified bool, err error) {
	var results [][]byte
	count, queries := int64(0), int64(0)
	for _, p := range parts {
		queries += p.View.NumQueries()
	}
	last := parts[len(parts)-1].View
	if last.WitnessIndex() > 0 {
		queries++
	}
	for f, err := range typed(b, "an answer", protowire.BytesType) {
		if err != nil {
			return nil, false, err
		}
		if count++; count <= queries {
			results = append(results, f.Bytes)
		}
	}
	switch {
	case count != queries && queries == 1:
		return nil, false, fmt.Errorf("the answer holds %d results for one query", count)
	case count != queries:
		return nil, false, fmt.Errorf("the answer holds %d results for %d queries", count, queries)
	}
	for _, p := range parts {
		firsts = append(firsts, results[0])
		own := p.View.NumQueries()
		for i, other := range results[1:own] {
			if len(other) > 0 {
				return nil, false, p.View.Clash(int64(i + 1))
			}
		}
		results = results[own:]
	}
	return firsts, len(results) > 0 && last.Testified(results[0]), nil
}

// add adds a prompb.TimeSeries to b.
func (s *samplesReader) add(series []byte, b *selection.Builder) error {
	l, i, rest, err := s.find(series)
	if err != nil {
		return err
	}
	floats, err := s.samples(rest)
	switch {
	case err != nil:
		return err
	case floats && len(s.times) == 0:
		return nil
	case s.exact && (!floats || s.zero && s.maySign(i)):
		return ErrUnfit
	}
	b.Series(l)
	s.labelBytes += int64(l.ByteSize())
	if !floats {
		return addSlowly(rest, l, b)
	}
	return b.Floats(s.times, s.values)
}

// maySign reports whether a value of 0 of the expected series i, or of one that was not
// expected if that is -1, may be -0.
func (s *samplesReader) maySign(i int) bool {
	switch {
	case s.signed == nil:
		return true
	case i >= 0:
		return s.signed(i)
	}
	return slices.ContainsFunc(s.values, math.Signbit)
}

// samples goes through the fields of a prompb.TimeSeries behind its labels for the samples. It reports
// whether there is nothing but floats.
func (s *samplesReader) samples(fields []byte) (floats bool, err error) {
	s.times, s.values, s.zero = s.times[:0], s.values[:0], false
	floats = true
	for f, err := range typed(fields, "a series", protowire.BytesType, protowire.BytesType, protowire.BytesType, protowire.BytesType) { // up to exemplars
		switch {
		case err != nil:
			return false, err
		case f.Num == 1:
			return false, errLate
		case f.Num > 2:
			floats = false
			continue
		}
		t, v, certain := plainSample(f.Bytes)
		if !certain {
			if t, v, certain, err = walkSample(f.Bytes); err != nil {
				return false, err
			}
		}
		s.zero = s.zero || !certain
		// To Prometheus the end of time is the end of the series.
		floats = floats && t < math.MaxInt64
		s.times, s.values = append(s.times, t), append(s.values, v)
	}
	return floats, nil
}

// plainSample reads a prompb.Sample with a value between the years 1971 and 2109, as nearly all are.
func plainSample(b []byte) (t int64, v float64, ok bool) {
	if len(b) != 1+8+1+6 || b[0] != 0x09 || b[9] != 0x10 {
		return 0, 0, false
	}
	t, ok = plainTime(binary.LittleEndian.Uint64(b[8:]) >> 16)
	return t, math.Float64frombits(binary.LittleEndian.Uint64(b[1:])), ok
}

// plainTime is the varint in the low 48 bits of x, if it takes all of them.
func plainTime(x uint64) (t int64, ok bool) {
	// Six bytes of seven bits each; all but the last say that there are more.
	t = int64(x&0x7f | x>>1&(0x7f<<7) | x>>2&(0x7f<<14) | x>>3&(0x7f<<21) | x>>4&(0x7f<<28) | x>>5&(0x7f<<35))
	return t, x&0x8080_8080_8080 == 0x0080_8080_8080
}

// walkSample goes through a prompb.Sample. A value that is left out is 0, but it is not
// certain of which sign.
func walkSample(b []byte) (t int64, v float64, certain bool, err error) {
	for f, err := range typed(b, "a sample", protowire.Fixed64Type, protowire.VarintType) {
		switch {
		case err != nil:
			return 0, 0, false, err
		case f.Num == 1:
			v, certain = math.Float64frombits(f.Value), true
		default:
			t = int64(f.Value)
		}
	}
	return t, v, certain, nil
}

// addSlowly adds what the fields of a prompb.TimeSeries behind its labels hold, native histograms and
// all, to the current series of b, by Prometheus's means.
func addSlowly(fields []byte, l labels.Labels, b *selection.Builder) error {
	var ts prompb.TimeSeries
	if err := ts.Unmarshal(fields); err != nil {
		return fmt.Errorf("the answer is not valid protobuf: in a series: %w", err)
	}
	// It presents samples and histograms as one.
	set := remote.FromQueryResult(false, &prompb.QueryResult{Timeseries: []*prompb.TimeSeries{&ts}})
	set.Next()
	it := set.At().Iterator(nil)
	err := b.Samples(it)
	if it.Err() != nil {
		return fmt.Errorf("series %s: %w", l, it.Err())
	}
	return err
}
