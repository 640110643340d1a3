package remoteread

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/selection"
)

// tally counts what the pieces of one fetch bring, all together.
type tally struct {
	limit int64        // bytes
	room  func() error // waits for the process to have memory for more
	told  *selection.Progress
	bytes atomic.Int64 // of chunks and labels so far
}

// tally returns one for a fetch.
func (c *Client) tally(ctx context.Context, told *selection.Progress) *tally {
	room := func() error { return nil }
	if c.memory != nil {
		room = func() error { return c.memory.Room(ctx, memory.Fetched) }
	}
	return &tally{limit: c.answers.MaxBytes, room: room, told: told}
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

// exchange describes the attempt, which sent q at the time sent and has just ended.
func (s *share) exchange(q question, sent time.Time, sel *selection.Selection, err error) selection.Exchange {
	r := selection.Exchange{
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
	more := bytes - s.bytes
	s.bytes, s.series = bytes, series
	s.of.told.Arrive(more)
	if s.of.bytes.Add(more) > s.of.limit {
		return fmt.Errorf("%w of %d bytes", selection.ErrTooLarge, s.of.limit)
	}
	if bytes-s.asked >= askEvery {
		s.asked = bytes
		return s.of.room()
	}
	return nil
}

// takeBack removes the attempt from the tally.
func (s *share) takeBack() { _ = s.set(0, 0) }
