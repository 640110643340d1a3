package admit

import (
	"context"
	"hash/maphash"
	"net/http"
	"time"

	"github.com/promwarp/promwarp/api/params"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/queue"
)

// admitted is a request that has a slot. Its key is the same for requests for one query over ranges of
// one length, which begin at start, and for resample requests with the same form, whose start is zero.
type admitted struct {
	*queue.Slot
	large *memory.TooLarge // nil if the request has no key
	key   uint64
	start time.Time
}

// keyed is r's admission, still without a slot.
func keyed(large *memory.TooLarge, r *http.Request) *admitted {
	switch {
	case large == nil || len(r.Form) == 0:
		return &admitted{}
	case r.Form.Get("query") == "":
		return &admitted{large: large, key: maphash.String(large.Seed, r.Form.Encode())}
	}
	e, err := params.Parse(r, time.Now())
	if err != nil {
		return &admitted{}
	}
	var h maphash.Hash
	h.SetSeed(large.Seed)
	for _, text := range []string{e.Query, e.End.Sub(e.Start).String(), e.Step.String(), e.Lookback.String(), r.Form.Get("executor"), r.Form.Get("exact")} {
		_, _ = h.WriteString(text)
		_ = h.WriteByte(0)
	}
	return &admitted{large: large, key: h.Sum64(), start: e.Start}
}

// NeededTooMuch says that the request's query needed more memory than there is, as err says: the
// same query is refused for a while before its samples are fetched.
func NeededTooMuch(ctx context.Context, err *memory.TooLargeError) {
	if a, _ := ctx.Value(slotKey{}).(*admitted); a != nil {
		a.large.Note(a.key, a.start, err)
	}
}
