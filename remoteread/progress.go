package remoteread

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/progress"
	"github.com/promwarp/promwarp/selection"
)

// Progress is how far one fetch has come.
type Progress struct {
	Pieces     int   // pieces that the range is split into
	PiecesDone int   // pieces that have arrived in full
	Bytes      int64 // bytes of chunks and labels so far
	Series     int64 // series so far; one in several pieces counts in each
}

type progressKey struct{}

// WithProgress makes fetches under the returned context call f as data
// arrives, at the least for every frame, so f should throttle what it does.
// Calls for one fetch come one at a time and hold up its pieces. Counts fall
// where a piece is fetched again. A fetch that sends no request makes no call.
func WithProgress(ctx context.Context, f func(Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, f)
}

// tally counts what the pieces of one fetch bring, all together.
type tally struct {
	limit  int64 // bytes
	report func(Progress)
	told   *progress.Request
	room   func() error // waits for the process to have memory for more; or nil

	mu sync.Mutex
	p  Progress
}

func newTally(ctx context.Context, pieces int, limit int64) *tally {
	t := &tally{limit: limit, told: progress.Of(ctx), p: Progress{Pieces: pieces}}
	t.report, _ = ctx.Value(progressKey{}).(func(Progress))
	t.change(func(*Progress) {})
	return t
}

// tally returns one for a fetch in so many pieces.
func (c *Client) tally(ctx context.Context, pieces int) *tally {
	t := newTally(ctx, pieces, c.answers.MaxBytes)
	if c.memory != nil {
		t.room = func() error { return c.memory.Room(ctx, memory.Fetched) }
	}
	return t
}

func (t *tally) change(f func(*Progress)) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(&t.p)
	if t.report != nil {
		t.report(t.p)
	}
	return t.p.Bytes
}

// share is one attempt's part in a tally. It is taken back when the attempt
// fails and its data is thrown away.
type share struct {
	of            *tally
	bytes, series int64
	asked         int64 // bytes when room was asked for last

	wire      int64     // bytes of the answer's body
	firstByte time.Time // when its first came; zero if none did
}

// request describes the attempt, which sent q at the time sent and has just ended.
func (s *share) request(q question, sent time.Time, sel *selection.Selection, err error) selection.Request {
	r := selection.Request{
		MinT: q.mint, MaxT: q.maxt, Sent: sent, FirstByte: s.firstByte, Ended: time.Now(), Bytes: s.wire, Outcome: string(outcomeOf(err)),
	}
	if err == nil {
		r.Series, r.Samples = sel.NumSeries(), sel.NumSamples()
	}
	return r
}

// askEvery is after how many bytes more room is asked for again.
const askEvery = 1 << 20

// set says how much the attempt has brought so far.
func (s *share) set(bytes, series int64) error {
	if bytes == s.bytes && series == s.series {
		return nil
	}
	db, ds := bytes-s.bytes, series-s.series
	s.bytes, s.series = bytes, series
	s.of.told.Arrive(db)
	total := s.of.change(func(p *Progress) {
		p.Bytes += db
		p.Series += ds
	})
	if total > s.of.limit {
		return fmt.Errorf("%w of %d bytes", selection.ErrTooLarge, s.of.limit)
	}
	if s.of.room != nil && bytes-s.asked >= askEvery {
		s.asked = bytes
		return s.of.room()
	}
	return nil
}

// takeBack removes the attempt from the tally.
func (s *share) takeBack() { _ = s.set(0, 0) }

// done marks the attempt's piece as arrived.
func (s *share) done() {
	s.of.change(func(p *Progress) { p.PiecesDone++ })
}
