package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/selection"
)

// recorded hands out what a storage does and notes it, so that others can be asked
// for the very same later, whatever the storage has then.
type recorded struct {
	from storage.Queryable

	mu      sync.Mutex
	opened  []storage.Querier
	answers []answer
}

// answer is what a selector was answered.
type answer struct {
	matchers   string
	start, end int64 // ms
	sel        *selection.Selection
	ws         annotations.Annotations
	err        error
}

// Querier implements storage.Queryable.
func (s *recorded) Querier(mint, maxt int64) (storage.Querier, error) {
	q, err := s.from.Querier(mint, maxt)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened = append(s.opened, q)
	return &recordedQuerier{Querier: q, s: s, mint: mint, maxt: maxt}, nil
}

// close ends the use of all that was handed out.
func (s *recorded) close() {
	for _, q := range s.opened {
		_ = q.Close()
	}
}

type recordedQuerier struct {
	storage.Querier
	s          *recorded
	mint, maxt int64
}

// Close implements storage.Querier. What was handed out is still to be read.
func (q *recordedQuerier) Close() error { return nil }

// SelectChunks implements selection.Querier.
func (q *recordedQuerier) SelectChunks(ctx context.Context, hints *storage.SelectHints, ms ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	start, end := selection.Bounds(hints, q.mint, q.maxt)
	name := fmt.Sprint(ms)
	q.s.mu.Lock()
	i := slices.IndexFunc(q.s.answers, func(a answer) bool {
		// Prometheus's engine may ask for 1 ms more at the start.
		return a.matchers == name && a.end == end && a.start >= start && a.start <= start+1
	})
	if i >= 0 {
		a := q.s.answers[i]
		q.s.mu.Unlock()
		return a.sel, a.ws, a.err
	}
	q.s.mu.Unlock()
	sel, ws, err := q.Querier.(selection.Querier).SelectChunks(ctx, hints, ms...)
	q.s.mu.Lock()
	defer q.s.mu.Unlock()
	q.s.answers = append(q.s.answers, answer{name, start, end, sel, ws, err})
	return sel, ws, err
}

// Select implements storage.Querier.
func (q *recordedQuerier) Select(ctx context.Context, _ bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	mint, maxt := selection.Bounds(hints, q.mint, q.maxt)
	return selection.LazySeriesSet(mint, maxt, func() (*selection.Selection, annotations.Annotations, error) {
		return q.SelectChunks(ctx, hints, ms...)
	})
}
