package answer

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/promwarp/promwarp/selection"
)

// Store reads what a store of Thanos sends of one question, message by message. A series with its chunks
// lies as in remote read, and chunks lie otherwise:
//
//	prompb.Chunk      min_time=1 max_time=2 type=3 data=4
//	thanos.AggrChunk  min_time=1 max_time=2 raw=3{type=1 data=2 hash=3} and, of lower resolution, 4 to 8
//
// Series have the store's external labels, by which it matches them. They may come in any order and in
// parts; so may chunks, which the selection puts in order without overlaps.
type Store struct {
	d        *streamBuilder
	part     *Part
	beside   int64    // bytes that were not of series
	batch    [][]byte // the series of the last batch
	Warnings []string // that came, each once
}

// NewStore returns a reader of the answer to p.
func (a *Reader) NewStore(p *Part) *Store {
	d := &streamBuilder{b: selection.NewBuilder(a.MaxBytes).Within(p.Ctx), finder: newFinder(p, false)}
	d.asked = newSelector(p.Asked, false)
	d.ofStore, d.aggregates = true, p.Aggregates
	return &Store{d: d, part: p}
}

// ErrDownsampled is for chunks of a lower resolution, which were not asked for.
var ErrDownsampled = errors.New("a chunk without raw samples, of a lower resolution, which was not asked for")

// mostWarnings is how many warnings of an answer are passed on.
const mostWarnings = 64

// emptyMessage is how many bytes are counted for a message, so that empty ones end, too.
const emptyMessage = 64

// Message reads a thanos.SeriesResponse.
func (s *Store) Message(b []byte) error {
	const bytes = protowire.BytesType
	s.beside += emptyMessage
	for f, err := range typed(b, "a message", bytes, bytes, bytes, bytes) {
		if err == nil {
			switch f.Num {
			case 1:
				err = s.d.addSeries(f.Bytes)
			case 2:
				s.warn(string(f.Bytes))
			case 4:
				s.batch, _, err = parse(f.Bytes, s.batch[:0]) // which lies as a frame does
				for i := 0; i < len(s.batch) && err == nil; i++ {
					err = s.d.addSeries(s.batch[i])
				}
			}
		}
		if err != nil {
			return err
		}
	}
	return s.part.Count(s.d.b.Bytes()+s.d.labelBytes+s.beside, s.d.series)
}

// warn notes a warning.
func (s *Store) warn(text string) {
	s.beside += int64(len(text))
	if len(s.Warnings) < mostWarnings && !slices.Contains(s.Warnings, text) {
		s.Warnings = append(s.Warnings, text)
	}
}

// Finish sets the part's selection, once all messages were read.
func (s *Store) Finish() (err error) {
	s.part.Sel, err = s.d.b.Finish()
	return err
}

// storeChunk adds a thanos.AggrChunk to the current series.
func (d *streamBuilder) storeChunk(b []byte) error {
	const number, bytes = protowire.VarintType, protowire.BytesType
	var minT, maxT int64
	var chunks [fieldCounter + 1][]byte // by their fields
	for f, err := range typed(b, "a chunk", number, number, bytes, bytes, bytes, bytes, bytes, bytes) {
		switch {
		case err != nil:
			return err
		case f.Num == 1:
			minT = int64(f.Value)
		case f.Num == 2:
			maxT = int64(f.Value)
		default:
			chunks[f.Num] = f.Bytes
		}
	}
	lower := chunks[fieldRaw] == nil
	switch {
	case lower && len(d.aggregates) == 0:
		return fmt.Errorf("series %s: %w", d.labels, ErrDownsampled)
	case len(d.aggregates) > 0 && d.overlaps(span{minT, maxT, lower}):
		return fmt.Errorf("series %s: %w", d.labels, errOverlap)
	case lower:
		return d.addAggregate(minT, maxT, chunks[:])
	}
	e, data, err := d.encoded(chunks[fieldRaw])
	if err != nil {
		return err
	}
	return d.add(e, minT, maxT, data)
}

// The fields of a thanos.AggrChunk that are chunks.
const (
	fieldRaw     = 3
	fieldCounter = 8
)

// encoded reads a thanos.Chunk.
func (d *streamBuilder) encoded(b []byte) (e chunkenc.Encoding, data []byte, err error) {
	var kind uint64
	for f, err := range typed(b, "a chunk", protowire.VarintType, protowire.BytesType) {
		switch {
		case err != nil:
			return 0, nil, err
		case f.Num == 1:
			kind = f.Value
		default:
			data = f.Bytes
		}
	}
	// XOR, HISTOGRAM and FLOAT_HISTOGRAM are one less than in Prometheus, where 0 is no encoding.
	if kind > uint64(chunkenc.EncFloatHistogram-1) {
		return 0, nil, fmt.Errorf("series %s: unknown chunk encoding %d of a store; there are XOR 0, HISTOGRAM 1 and FLOAT_HISTOGRAM 2", d.labels, min(kind, math.MaxInt32))
	}
	return chunkenc.Encoding(kind + 1), data, nil
}
