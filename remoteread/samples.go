package remoteread

import (
	"context"
	"fmt"
	"io"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/promwarp/promwarp/selection"
)

// readSamples reads an answer of samples, from a store that cannot stream
// chunks, and encodes them into chunks.
func (c *Client) readSamples(ctx context.Context, r io.Reader, sh *share) (*selection.Selection, error) {
	compressed, err := io.ReadAll(io.LimitReader(r, c.maxAnswer+1))
	if err != nil {
		return nil, &cutOffError{err}
	}
	if n := int64(len(compressed)); n > c.maxAnswer {
		return nil, c.answerTooLarge(fmt.Sprintf("more than %d", c.maxAnswer))
	}
	// The length comes first in the bytes, before anything is allocated for it.
	n, err := snappy.DecodedLen(compressed)
	if err != nil {
		return nil, &corruptError{fmt.Sprintf("the answer is not compressed with snappy: %v", err)}
	}
	if int64(n) > c.maxAnswer {
		return nil, c.answerTooLarge(fmt.Sprint(n))
	}
	data, err := snappy.Decode(nil, compressed)
	if err != nil {
		return nil, &corruptError{fmt.Sprintf("the answer cannot be decompressed: %v", err)}
	}
	result, err := onlyResult(data)
	if err != nil {
		return nil, err
	}
	set := &samplesSet{rest: result}
	sel, _, err := selection.FromSeriesSet(ctx, set, c.maxBytes)
	if err != nil {
		return nil, err
	}
	var chunkBytes int64
	for i := range sel.NumSeries() {
		for _, k := range sel.Chunks(i) {
			chunkBytes += int64(k.Len)
		}
	}
	return sel, sh.set(chunkBytes+set.labelBytes, int64(sel.NumSeries()))
}

func (c *Client) answerTooLarge(size string) *Error {
	return c.fail(outcomeTooLarge, false,
		fmt.Errorf("an answer of %s bytes exceeds the limit of %d bytes", size, c.maxAnswer),
		"raise --"+FlagMaxFrameBytes+", or narrow the selector or the time range")
}

// onlyResult finds the one prompb.QueryResult of a prompb.ReadResponse.
func onlyResult(b []byte) ([]byte, error) {
	var result []byte
	n := 0
	err := walkRepeated(b, "an answer", func(v []byte) error {
		result = v
		n++
		return nil
	})
	if err != nil {
		return nil, err
	}
	if n != 1 {
		return nil, fmt.Errorf("the answer holds %d results for one query", n)
	}
	return result, nil
}

// walkRepeated calls f for every message in field 1 of b.
func walkRepeated(b []byte, where string, f func([]byte) error) error {
	for len(b) > 0 {
		v, n, err := nextRepeated(b, where)
		if err != nil {
			return err
		}
		b = b[n:]
		if v == nil {
			continue
		}
		if err := f(v); err != nil {
			return err
		}
	}
	return nil
}

// nextRepeated reads one field of b, n bytes long. v is its bytes when it is
// field 1, else nil.
func nextRepeated(b []byte, where string) (v []byte, n int, err error) {
	num, typ, n := protowire.ConsumeTag(b)
	if n < 0 {
		return nil, 0, malformedField(where, n)
	}
	if num != 1 {
		m := protowire.ConsumeFieldValue(num, typ, b[n:])
		if m < 0 {
			return nil, 0, malformedField(where, m)
		}
		return nil, n + m, nil
	}
	if typ != protowire.BytesType {
		return nil, 0, wrongType(where, num, typ)
	}
	v, m := protowire.ConsumeBytes(b[n:])
	if m < 0 {
		return nil, 0, malformedField(where, m)
	}
	return v[:len(v):len(v)], n + m, nil
}

// samplesSet decodes the series of a prompb.QueryResult one at a time, so that
// samples take the space of one series before they are encoded, not of all.
type samplesSet struct {
	rest       []byte
	at         storage.Series
	labelBytes int64
	err        error
}

// Next implements storage.SeriesSet.
func (s *samplesSet) Next() bool {
	for s.err == nil && len(s.rest) > 0 {
		v, n, err := nextRepeated(s.rest, "a result")
		if err != nil {
			s.err = err
			return false
		}
		s.rest = s.rest[n:]
		if v == nil {
			continue
		}
		s.at, s.err = s.series(v)
		return s.err == nil
	}
	return false
}

func (s *samplesSet) series(b []byte) (storage.Series, error) {
	var ts prompb.TimeSeries
	if err := ts.Unmarshal(b); err != nil {
		return nil, fmt.Errorf("the answer is not valid protobuf: in a series: %w", err)
	}
	for _, l := range ts.Labels {
		if err := checkLabel(l.Name, l.Value); err != nil {
			return nil, fmt.Errorf("series %s: %w", describeLabels(ts.Labels), err)
		}
		s.labelBytes += int64(len(l.Name) + len(l.Value))
	}
	// It sorts the labels, and presents samples and histograms as one.
	set := remote.FromQueryResult(false, &prompb.QueryResult{Timeseries: []*prompb.TimeSeries{&ts}})
	if !set.Next() {
		return nil, fmt.Errorf("series %s: %w", describeLabels(ts.Labels), set.Err())
	}
	series := set.At()
	if name, twice := series.Labels().HasDuplicateLabelNames(); twice {
		return nil, fmt.Errorf("series %s: label %q appears twice", series.Labels(), name)
	}
	return named{series}, nil
}

// named is a series whose iterator names it when it fails.
type named struct{ storage.Series }

// Iterator implements storage.Series.
func (s named) Iterator(chunkenc.Iterator) chunkenc.Iterator {
	return namedIterator{s.Series.Iterator(nil), s}
}

type namedIterator struct {
	chunkenc.Iterator
	series named
}

// Err implements chunkenc.Iterator.
func (it namedIterator) Err() error {
	if err := it.Iterator.Err(); err != nil {
		return fmt.Errorf("series %s: %w", it.series.Labels(), err)
	}
	return nil
}

// At implements storage.SeriesSet.
func (s *samplesSet) At() storage.Series { return s.at }

// Err implements storage.SeriesSet.
func (s *samplesSet) Err() error { return s.err }

// Warnings implements storage.SeriesSet.
func (*samplesSet) Warnings() annotations.Annotations { return nil }

func describeLabels(ls []prompb.Label) string {
	wire := make([]wireLabel, 0, len(ls))
	for _, l := range ls {
		wire = append(wire, wireLabel{name: []byte(l.Name), value: []byte(l.Value)})
	}
	return describe(wire)
}
