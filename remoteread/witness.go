package remoteread

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"

	"github.com/promwarp/promwarp/internal/rescue"
)

// A witness is a series that the store is known to have and whose labels are known as they
// are stored. A request that asks for it, too, tells with which external labels it was
// answered: where the witness comes with those that are known and no others, they need
// not be read again. It cannot tell of an external label that has the name of one of its
// own labels. So only a series that has no labels but those below is a witness, as up is
// in most Prometheis; an external label of one of these names would do nothing to what
// was scraped. That such a label has come is found out when the store's settings are read
// anyway.

// witnessNames are the only labels that a witness may have.
var witnessNames = []string{model.MetricNameLabel, "instance", "job"}

const (
	// witnessRange is how far back a witness is asked for, ms: it must be alive.
	witnessRange = 5 * 60_000
	// witnessEvery is how long no other witness is looked for after one was.
	witnessEvery = time.Minute
	// witnessTimeout is how long that may take.
	witnessTimeout = 10 * time.Second
)

// witness is the present one of a client, if there is one.
type witness struct {
	series atomic.Pointer[labels.Labels]
	sought atomic.Int64 // when one was looked for last, ms since the epoch
}

// of returns the witness for fetches under external labels ext, or nil.
func (w *witness) of(ext labels.Labels) *labels.Labels {
	for _, name := range witnessNames {
		if ext.Has(name) {
			return nil
		}
	}
	return w.series.Load()
}

// seekWitness looks for a witness if there is none, unless it has done so a moment ago.
func (c *Client) seekWitness() {
	now := time.Now().UnixMilli()
	last := c.witness.sought.Load()
	if c.background.Err() != nil || c.witness.series.Load() != nil || now-last < witnessEvery.Milliseconds() || !c.witness.sought.CompareAndSwap(last, now) {
		return
	}
	c.running.Go(func() {
		if err := rescue.Do(func() error { c.findWitness(now); return nil }); err != nil {
			c.log.Error("looking for a series by which to tell external labels panicked; please report this", "err", err)
		}
	})
}

// findWitness looks for a witness around now (ms since the epoch).
func (c *Client) findWitness(now int64) {
	ctx, cancel := context.WithTimeout(c.background, witnessTimeout)
	defer cancel()
	ext, err := c.external.Labels(ctx)
	if err != nil {
		return
	}
	up := []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, "up")}
	v, err := newView(ext, false, up)
	if err != nil {
		return
	}
	// Without a witness the labels are confirmed.
	sel, err := c.fetchView(ctx, now-witnessRange/2, now, v)
	if err != nil {
		return
	}
	for _, l := range sel.Series() {
		fits := true
		l.Range(func(l labels.Label) { fits = fits && slices.Contains(witnessNames, l.Name) })
		if fits {
			l = l.Copy()
			c.witness.series.Store(&l)
			return
		}
	}
}

// witnessQuery asks for the witness of v, by the labels that are stored.
func (v *view) witnessQuery() *prompb.Query {
	var ms []*prompb.LabelMatcher
	v.witness.Range(func(l labels.Label) {
		ms = with(ms, prompb.LabelMatcher_EQ, l.Name, l.Value)
	})
	v.all.Range(func(l labels.Label) { ms = with(ms, prompb.LabelMatcher_EQ, l.Name, "") })
	now := time.Now().UnixMilli()
	return &prompb.Query{StartTimestampMs: now - witnessRange, EndTimestampMs: now, Matchers: ms}
}

// witnessIndex is the number of the query for the witness, or -1.
func (v *view) witnessIndex() int64 {
	if v == nil || v.witness == nil {
		return -1
	}
	if !v.adds() {
		return 1
	}
	return int64(1 + len(v.open))
}

// testifies reports whether a series, a prompb.TimeSeries or prompb.ChunkedSeries, is the
// witness with the external labels that are known and no others.
func (v *view) testifies(series []byte) bool {
	want := labels.NewBuilder(*v.witness)
	v.all.Range(func(l labels.Label) { want.Set(l.Name, l.Value) })
	expected := want.Labels()
	found := 0
	for len(series) > 0 {
		num, b, n, err := nextField(series, "a series", 2)
		if err != nil {
			return false
		}
		series = series[n:]
		if num != 1 {
			continue
		}
		l, err := walkLabel(b)
		if err != nil || len(l.value) == 0 || expected.Get(str(l.name)) != str(l.value) {
			return false
		}
		found++
	}
	return found == expected.Len()
}

// testified reports whether a prompb.QueryResult has the witness as it should be.
func (v *view) testified(result []byte) bool {
	for len(result) > 0 {
		num, series, n, err := nextField(result, "a result", 1)
		if err != nil {
			return false
		}
		result = result[n:]
		if num == 1 && v.testifies(series) {
			return true
		}
	}
	return false
}
