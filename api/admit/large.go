package admit

import (
	"errors"
	"hash/maphash"
	"net/http"
	"time"

	"github.com/promwarp/promwarp/api/params"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/queue"
)

// Turn is a request's turn to be evaluated. Its key is the same for requests for one query over ranges
// of one length, which begin at start, and for resample requests with the same form, whose start is zero.
type Turn struct {
	slot  *queue.Slot
	large *memory.TooLarge // nil if the request has no key
	key   uint64
	start time.Time
}

// keyed is r's turn, still without a slot.
func keyed(large *memory.TooLarge, r *http.Request) *Turn {
	switch {
	case large == nil || len(r.Form) == 0:
		return &Turn{}
	case r.Form.Get("query") == "":
		return &Turn{large: large, key: maphash.String(large.Seed, r.Form.Encode())}
	}
	e, err := params.Parse(r, time.Now())
	if err != nil {
		return &Turn{}
	}
	var h maphash.Hash
	h.SetSeed(large.Seed)
	for _, text := range []string{e.Query, e.End.Sub(e.Start).String(), e.Step.String(), e.Lookback.String(), r.Form.Get("executor"), r.Form.Get("exact")} {
		_, _ = h.WriteString(text)
		_ = h.WriteByte(0)
	}
	return &Turn{large: large, key: h.Sum64(), start: e.Start}
}

// Evaluated gives the slot of the request back: what is left is to write. err is what the evaluation
// failed for; of a *memory.TooLargeError the same query is refused for a while before its samples are
// fetched.
func (t *Turn) Evaluated(err error) {
	var large *memory.TooLargeError
	if errors.As(err, &large) {
		t.large.Note(t.key, t.start, large)
	}
	t.slot.Leave()
}
