package cache

import (
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/cache/disk"
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
	at := f.asked.at.Now
	if c.recheck == 0 {
		return
	}
	alive, until := at-c.fresh, min(f.To, at-c.fresh/latest)
	before := selection.Empty()
	if f.narrow {
		c.mu.Lock()
		sel, usable := f.entry.sel, f.entry.covered.Usable(f.asked.at)
		c.mu.Unlock()
		if sel == nil || len(usable.Missing(tile.Span{From: alive, To: f.From})) > 0 {
			return // it is not known which series there are
		}
		// A series that was behind by then and has got no sample since is not behind but
		// pauses.
		if last := usable.Within(tile.Span{From: f.From - 1, To: f.From}); at-last[0].At < c.fresh/pause {
			before = sel
		}
	}
	to, ok := complete(before, f.sel, alive, until)
	if !ok || f.narrow && to < f.From+c.fresh/worthKeeping {
		return
	}
	young := tile.Span{From: max(f.From, f.asked.at.Settled.To), To: to}
	f.has = f.has.Having(tile.Stretch{Span: young, At: at, Young: true})
}

// fewest is how many series tell how far apart samples are.
const fewest = 8

// expected is what a fetch of s is likely to bring of e's series, of which something is kept. The cache's mutex
// must be held.
func (c *Cache) expected(e *entry, s tile.Span) (x selection.Expectation) {
	x.Series, x.NoSamples = e.sel.Series(), &e.unfit
	if e.sel.Has(chunkenc.EncXOR2) || !e.sel.OnlyFloats() {
		return x // samples alone would lack something
	}
	x.Signed = signed(e.sel)
	n, length := len(x.Series), min(s.To, c.now().UnixMilli())-s.From
	for i := range min(fewest, n) {
		// The newest chunks have a sample each where what is young is kept scrape by scrape.
		for _, k := range slices.Backward(e.sel.Chunks(i * n / min(fewest, n))) {
			if k.Samples > 1 {
				between := max(1, (k.MaxT-k.MinT)/int64(k.Samples-1))
				x.Samples = max(x.Samples, int(min(length/between, math.MaxInt32-1))+1)
				break
			}
		}
	}
	return x
}

// mostEmpty is how many stretches are noted as empty beside a new one at most.
const mostEmpty = 100

// doubts reports whether f is not believed, as it has no series though its selector had samples then
// or earlier. A store that starts, or has lost sight of its data, may answer nothing for a while. Such a
// stretch is fetched at each look until it has been empty for the freshness window, and is kept from
// then on for as long as it has been empty. So a selector that has ended costs a few fetches in a day.
func (c *Cache) doubts(f *flight) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, s, now := f.entry, f.settled, c.now().UnixMilli()
	had := e.sel != nil && tile.Extent(e.sel).From < s.To
	if c.disk != nil {
		had = had || slices.ContainsFunc(c.disk.Files(e.key), func(d *disk.File) bool { return !d.Empty() && d.Covered[0].From < s.To })
	}
	known := e.empty.Within(s)
	e.empty = e.empty.Without(s)
	if !had || f.sel.NumSeries() > 0 || s.Empty() {
		return false
	}
	if len(e.empty) > mostEmpty {
		e.empty = nil
	}
	for _, rest := range known.Missing(s) {
		known = known.With(rest.Span, now)
	}
	since := int64(math.MinInt64)
	for _, one := range known {
		e.empty = e.empty.Having(one)
		since = max(since, one.At)
	}
	if c.maxAge > 0 {
		f.has = tile.Coverage(nil).With(s, min(f.has[0].At, now-c.maxAge+now-since))
	}
	return now-since < c.fresh
}

// complete returns the end of the stretch that every series of before and sel, which
// is newer, has newer samples than, but at most until, and whether there is one. Only
// series that go on count, which have a sample since alive. Histograms whose chunks are
// cut lose what their store knew of resets, so with them there is none. Times are in ms.
func complete(before, sel *selection.Selection, alive, until int64) (int64, bool) {
	if !sel.OnlyFloats() || !before.OnlyFloats() {
		return 0, false
	}
	any := false
	look := func(sel *selection.Selection, i int) {
		cs := sel.Chunks(i)
		k := cs[len(cs)-1]
		switch {
		case k.MaxT < alive:
		case k.MaxT+1 >= until:
			any = true
		case !ended(sel, k):
			any = true
			until = k.MaxT + 1
		}
	}
	i := 0
	for k := range sel.NumSeries() {
		l := sel.Labels(k)
		for ; i < before.NumSeries(); i++ {
			if labels.Equal(before.Labels(i), l) {
				i++
				break
			}
			if labels.Compare(before.Labels(i), l) > 0 {
				break
			}
			look(before, i)
		}
		look(sel, k)
	}
	for ; i < before.NumSeries(); i++ {
		look(before, i)
	}
	return until, any
}

// ended reports whether the series whose last chunk is k has been said to have ended.
func ended(sel *selection.Selection, k selection.Chunk) bool {
	last, err := floats(sel, k, func(float64) {})
	return err == nil && value.IsStaleNaN(last)
}

// signed returns a function that reports whether the last chunk of a series of sel
// has a value below 0, or -0.
func signed(sel *selection.Selection) func(series int) bool {
	return func(series int) bool {
		cs := sel.Chunks(series)
		found := false
		_, err := floats(sel, cs[len(cs)-1], func(v float64) { found = found || math.Signbit(v) && !math.IsNaN(v) })
		return found || err != nil
	}
}

// floats calls f with all values of chunk k of sel and returns the last one, NaN for none.
func floats(sel *selection.Selection, k selection.Chunk, f func(float64)) (last float64, err error) {
	c, err := chunkenc.FromData(k.Enc, sel.Bytes(k))
	if err != nil {
		return 0, err
	}
	last = math.NaN()
	it := c.Iterator(nil)
	for v := it.Next(); v == chunkenc.ValFloat; v = it.Next() {
		_, last = it.At()
		f(last)
	}
	return last, it.Err()
}
