package remoteread

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/internal/rescue"
	"github.com/promwarp/promwarp/remoteread/external"
)

const (
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
	if !external.HasWitness(ext) {
		return nil
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
	v, err := external.New(ext, false, up)
	if err != nil {
		return
	}
	// Without a witness the labels are confirmed.
	sel, err := c.fetchView(ctx, now-external.WitnessRange/2, now, v)
	if err != nil {
		return
	}
	for _, l := range sel.Series() {
		if external.FitsWitness(l) {
			l = l.Copy()
			c.witness.series.Store(&l)
			return
		}
	}
}
