package cache

import (
	"math"

	"github.com/promwarp/promwarp/cache/newest"
	"github.com/promwarp/promwarp/cache/tile"
	"github.com/promwarp/promwarp/selection"
)

// Where an upstream takes no samples out of order, a series gets no sample that is
// older than the newest it has. So what was fetched up to the newest sample of the
// series that has fallen behind most will not change, but for series that are new,
// or that begin again, with samples that come late. It is young: it is kept, and
// fetched again when it is older than Options.Recheck. Meanwhile only what is newer
// is fetched with every query: a minute or some instead of a tile. Of that what all
// series that go on have newer samples than becomes young, too.

// latest is how much younger than the time of the fetch samples are that are never
// kept: so series may begin with samples that are as late. It is a part of the
// freshness window, a minute of ten.
const latest = 10

// worthKeeping is how much more a fetch of what is newer must have for that to be
// kept, too, so that looks that follow one another fetch no more each time. It is a
// part of the freshness window, half a minute of ten.
const worthKeeping = 20

// pause is for how long a series has no sample that holds nothing back any more,
// however late its samples are. It is a part of the freshness window, a minute of ten,
// which is as long as nearly all scrapes are apart.
const pause = 10

// keepYoung finds out how much of what f has brought beyond what is settled may be kept
// as young.
func (c *Cache) keepYoung(f *flight) {
	at := f.moment.Now
	if c.recheck == 0 || f.whole.To <= f.moment.Settled.To {
		return
	}
	alive, until := at-c.fresh, min(f.whole.To, at-c.fresh/latest)
	before := selection.Empty()
	if c.narrow(f) {
		c.mu.Lock()
		sel, usable := f.entry.sel, f.entry.covered.Usable(f.moment)
		c.mu.Unlock()
		if sel == nil || len(usable.All().Missing(tile.Span{From: alive, To: f.whole.From})) > 0 {
			return // it is not known which series there are
		}
		// A series that was behind by then and has got no sample since is not behind but
		// pauses.
		if last := usable.Within(tile.Span{From: f.whole.From - 1, To: f.whole.From}, math.MinInt64); at-last[0].At < c.fresh/pause {
			before = sel
		}
	}
	to, ok := newest.Complete(before, f.sel, alive, until)
	if !ok || c.narrow(f) && to < f.whole.From+c.fresh/worthKeeping {
		return
	}
	young := tile.Span{From: max(f.whole.From, f.moment.Settled.To), To: to}
	f.has = f.has.Having(tile.Stretch{Span: young, At: at, Young: true})
}

// expected is what a fetch of s is likely to bring of e's series. The cache's mutex
// must be held.
func (c *Cache) expected(e *entry, s tile.Span) selection.Expectation {
	if e.sel == nil {
		return selection.Expectation{}
	}
	return newest.Expectation(e.sel, min(s.To, c.now().UnixMilli())-s.From)
}
