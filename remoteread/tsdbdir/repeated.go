package tsdbdir

import (
	"strings"
	"sync"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/slab"
)

// repeatedBytes bounds the selections of a snapshot that are retained, in bytes.
const repeatedBytes = 16 << 20

// repeated are the selections that were fetched from a snapshot last. A snapshot does not change,
// so who asks again for the newest samples, which the cache does not keep, gets what it got. All of
// their memory is told to slab.CountMemory.
type repeated struct {
	mu    sync.Mutex
	last  []*fetched // the oldest first
	bytes int64
}

// fetched is a selection and what was asked for.
type fetched struct {
	wanted
	sel *selection.Selection
}

// wanted is what is asked of a snapshot: a stretch of time in ms, and matchers.
type wanted struct {
	mint, maxt int64
	matchers   string
}

func want(mint, maxt int64, matchers []*labels.Matcher) wanted {
	texts := make([]string, len(matchers))
	for i, m := range matchers {
		texts[i] = m.String()
	}
	return wanted{mint, maxt, strings.Join(texts, ",")}
}

// of returns the selection that answers w, or nil.
func (r *repeated) of(w wanted) *selection.Selection {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.last {
		if f.wanted == w {
			return f.sel
		}
	}
	return nil
}

// add retains a selection, unless it is too large, in place of older ones.
func (r *repeated) add(w wanted, sel *selection.Selection) {
	size := sel.SizeBytes()
	if size > repeatedBytes {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.last {
		if f.wanted == w {
			return // another one was as fast
		}
	}
	f := &fetched{w, sel}
	slab.CountUntilFreed(f, sel.UncountedBytes())
	r.last, r.bytes = append(r.last, f), r.bytes+size
	for r.bytes > repeatedBytes {
		r.bytes -= r.last[0].sel.SizeBytes()
		r.last[0] = nil
		r.last = r.last[1:]
	}
}
