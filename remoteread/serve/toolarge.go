package serve

import (
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/prometheus/prometheus/prompb"

	"github.com/promwarp/promwarp/internal/memory"
)

// unlessTooLarge answers req, unless the same one alone needed more memory than there is a moment ago.
func (h *Handler) unlessTooLarge(req *prompb.ReadRequest, answer func() error) error {
	key, start := h.keyOf(req)
	if err := h.o.TooLarge.Refuses(key, start, h.o.Memory.Limit()); err != nil {
		return err
	}
	err := answer()
	if errors.As(err, new(*memory.BusyError)) && h.o.Alone != nil && h.o.Alone() {
		err = &memory.TooLargeError{Limit: h.o.Memory.Limit()}
	}
	var large *memory.TooLargeError
	if errors.As(err, &large) {
		h.o.TooLarge.Note(key, start, large)
	}
	return err
}

// keyOf is the same for requests for the same series over ranges of the same lengths, of which the
// first begins at start.
func (h *Handler) keyOf(req *prompb.ReadRequest) (key uint64, start time.Time) {
	if h.o.TooLarge == nil || len(req.Queries) == 0 {
		return 0, time.Time{}
	}
	var of maphash.Hash
	of.SetSeed(h.o.TooLarge.Seed)
	first := req.Queries[0].StartTimestampMs
	_, _ = fmt.Fprint(&of, h.reduce != nil, req.AcceptedResponseTypes)
	for _, q := range req.Queries {
		_, _ = fmt.Fprint(&of, q.StartTimestampMs-first, q.EndTimestampMs-first, len(q.Matchers))
		if hints := q.Hints; hints != nil {
			_, _ = fmt.Fprintf(&of, "%q%d %d %t%q", hints.Func, hints.StepMs, hints.RangeMs, hints.By, hints.Grouping)
		}
		for _, m := range q.Matchers {
			_, _ = fmt.Fprintf(&of, "%d%q%q", m.Type, m.Name, m.Value)
		}
	}
	return of.Sum64(), time.UnixMilli(first)
}
