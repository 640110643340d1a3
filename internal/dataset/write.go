package dataset

import (
	"context"
	"fmt"

	"github.com/prometheus/prometheus/storage"
)

// step is how far all series advance before any goes on. A TSDB head refuses
// samples older than its newest by more than half a block, an hour.
const step = 30 * minute

// commitSize is about the number of samples in one commit.
const commitSize = 20_000

// Progress is told how many samples were written of about how many in total. It
// may be nil. The last call has done equal to total.
type Progress func(done, total int64)

// Write appends the data set to app.
func Write(ctx context.Context, app storage.Appendable, o Options, progress Progress) (Stats, error) {
	g, err := New(o)
	if err != nil {
		return Stats{}, err
	}
	return g.Write(ctx, app, g.opts.End, progress)
}

// Write appends all samples before until, in ms since the epoch, that were not
// generated yet. The samples of all series advance together, so that a TSDB
// head accepts them.
func (g *Generator) Write(ctx context.Context, app storage.Appendable, until int64, progress Progress) (Stats, error) {
	g.heads++
	a := appending{ctx: ctx, app: app, head: g.heads}
	total := g.opts.estimate()
	for to := min(g.reached+step, until); ; to = min(to+step, until) {
		err := g.Next(to, a.append)
		if err == nil {
			err = a.commit()
		}
		if err != nil {
			a.rollback()
			return g.stats, fmt.Errorf("write data set: %w", err)
		}
		if to == until {
			break
		}
		if progress != nil {
			progress(min(g.stats.Samples, total), total)
		}
	}
	if progress != nil {
		progress(g.stats.Samples, g.stats.Samples)
	}
	return g.stats, nil
}

// appending appends in commits of bounded size.
type appending struct {
	ctx  context.Context
	app  storage.Appendable
	head int // tells the handles of one head from those of another
	cur  storage.Appender
	n    int // samples in cur
}

// append is an Emit.
func (a *appending) append(s *Series, t []int64, v []float64) error {
	if a.cur == nil {
		if err := a.ctx.Err(); err != nil {
			return err
		}
		a.cur = a.app.Appender(a.ctx)
	}
	if s.head != a.head {
		s.head, s.ref = a.head, 0
	}
	for i := range t {
		ref, err := a.cur.Append(s.ref, s.Labels, t[i], v[i])
		if err != nil {
			return fmt.Errorf("append %s at %d ms: %w", s.Labels, t[i], err)
		}
		s.ref = ref
	}
	if a.n += len(t); a.n >= commitSize {
		return a.commit()
	}
	return nil
}

func (a *appending) commit() error {
	if a.cur == nil {
		return nil
	}
	cur := a.cur
	a.cur, a.n = nil, 0
	return cur.Commit()
}

func (a *appending) rollback() {
	if a.cur != nil {
		_ = a.cur.Rollback()
		a.cur = nil
	}
}
