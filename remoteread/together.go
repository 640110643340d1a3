package remoteread

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/selection"
)

// Fetches for many selectors over the same time share requests: a remote read carries many queries,
// and each request costs the store and promwarp more than the answer to a small one.

const (
	// fewestTogether is the fewest selectors of a shared request: a store answers a request on one
	// core, so few selectors had better have requests of their own, on all cores.
	fewestTogether = 3
	// mostTogether is the most selectors of a shared request. Each may make several queries of it.
	mostTogether = 128
	// manyTogether is from how many selectors of a request on pieces are longer: there are requests
	// enough to keep all places busy, and a store looks for the series of each selector in each piece.
	manyTogether = 32
)

// companion is a selector that may share a request.
type companion struct {
	*selection.Ask
	once sync.Once
	came func(sel *selection.Selection)
	stop func() bool // watching the context of who asks
	q    piece
	all  *tally
}

// tell says what came, nil for nothing. Later calls do nothing.
func (one *companion) tell(sel *selection.Selection) { one.once.Do(func() { one.came(sel) }) }

// FetchTogether fetches what each of asks matches from mint to maxt (ms since the epoch, both
// included), in as few requests as keep all places busy. It calls came once for each, from several
// goroutines, with nil for one that Fetch is to be called for: since it may bring much, or since the
// request failed, for a reason that need not be its own.
func (c *Client) FetchTogether(mint, maxt int64, asks []selection.Ask, came func(i int, sel *selection.Selection)) {
	length := c.pieceOf(span{mint, maxt})
	if len(asks) >= manyTogether*c.concurrency {
		length *= growPiece
	}
	spans := split(mint, maxt, length)
	alike := map[bool][]*companion{} // by whether samples are asked for
	for i := range asks {
		one := &companion{Ask: &asks[i], came: func(sel *selection.Selection) { came(i, sel) }, all: c.tally(asks[i].Ctx, asks[i].Progress)}
		if !c.mayShare(one, len(spans)) {
			one.tell(nil)
			continue
		}
		of := alike[one.q.samples]
		if len(of) > 0 && !of[0].q.view.Alike(one.q.view) {
			one.tell(nil)
			continue
		}
		alike[one.q.samples] = append(of, one)
	}
	var g errgroup.Group
	for _, all := range alike {
		each := min((len(all)+c.concurrency-1)/c.concurrency, mostTogether)
		for len(all) > 0 {
			n := min(each, len(all))
			if each < fewestTogether {
				all[0].tell(nil)
				n = 1
			} else {
				some := all[:n]
				g.Go(func() error { c.fetchShared(spans, some); return nil })
			}
			all = all[n:]
		}
	}
	_ = g.Wait()
}

// mayShare makes one's piece, and reports whether a request for it may be for others, too.
func (c *Client) mayShare(one *companion, pieces int) bool {
	if c.store != nil || len(one.Matchers) == 0 || len(one.Expected.Series) > partSeries || !c.Answers(one.Matchers) {
		return false
	}
	var err error
	if one.q, _, err = c.pieceFor(one.Ctx, one.Matchers); err != nil {
		return false
	}
	one.q.fetch, one.q.samples = one.Fetch, pieces == 1 && c.prefersSamples(one.Expected)
	return one.q.view.Clashing(one.Expected.Series) == ""
}

// fetchShared makes one request for each of spans for all selectors. It goes on as long as any of
// them is waited for, and one that is not is told at once. Where it fails it is made again for one
// half and then for the other, since the reason may be one selector.
func (c *Client) fetchShared(spans []span, of []*companion) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(of[0].Ctx))
	defer cancel()
	var waiting atomic.Int64
	waiting.Store(int64(len(of)))
	for _, one := range of {
		one.stop = context.AfterFunc(one.Ctx, func() {
			one.tell(nil)
			if waiting.Add(-1) == 0 {
				cancel()
			}
		})
	}
	rides := make([][]*ride, len(spans)) // by span and selector
	var g errgroup.Group
	g.SetLimit(c.concurrency)
	for k := range spans {
		for _, one := range of {
			r := &ride{ctx: one.Ctx, q: one.q, of: one.all}
			r.q.span = spans[k]
			rides[k] = append(rides[k], r)
		}
		g.Go(func() error { return parallel.Rescue(func() error { c.inTurn(ctx, rides[k]...); return nil }) })
	}
	if err := g.Wait(); err != nil {
		c.log.Error("A request for many selectors panicked; please report this", "err", err)
	}
	var failed []*companion
	for i, one := range of {
		one.stop()
		if sel := c.shared(ctx, rides, i); sel != nil || one.Ctx.Err() != nil {
			one.tell(sel)
		} else {
			failed = append(failed, one)
		}
	}
	half := len(failed) / 2
	if half < fewestTogether || ctx.Err() != nil {
		for _, one := range failed {
			one.tell(nil)
		}
		return
	}
	c.fetchShared(spans, failed[:half])
	c.fetchShared(spans, failed[half:])
}

// shared joins what the rides of selector i brought, by span, or returns nil and takes it back where
// one brought nothing.
func (c *Client) shared(ctx context.Context, rides [][]*ride, i int) *selection.Selection {
	parts, whole := make([]*selection.Selection, len(rides)), true
	for k := range rides {
		r := rides[k][i]
		parts[k], whole = r.sel, whole && r.sel != nil
	}
	sel := parts[0]
	if whole && len(parts) > 1 {
		sel, _ = c.join(ctx, parts...)
	}
	if !whole {
		sel = nil
	}
	if sel == nil {
		for k := range rides {
			_ = rides[k][i].set(0, 0)
		}
	}
	return sel
}
