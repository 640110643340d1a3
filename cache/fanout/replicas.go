package fanout

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
	"golang.org/x/sync/errgroup"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/internal/instrument"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/replicas"
)

// Replica is an upstream that has all that the others have, but for when it was down.
type Replica struct {
	Upstream
	// Away says why it cannot be asked at the moment; nil if it can.
	Away func() error
}

// Replicas are upstreams that have the same as one. A selector's samples are those of one replica, the
// first that can be read; where it has a gap, they are another's. With Penalty they are all replicas',
// merged as Thanos does. Each cache keeps what its own replica said, and nothing that was merged is
// kept. It is a selection.Source, safe for concurrent use.
type Replicas struct {
	upstreams
	away    []func() error
	penalty bool
	read    *prometheus.CounterVec
	failed  *prometheus.CounterVec
}

// NewReplicas returns replicas as one upstream. r receives its metrics; nil means none.
func NewReplicas(r prometheus.Registerer, penalty bool, all ...Replica) *Replicas {
	make := instrument.With(r)
	s := &Replicas{
		penalty: penalty,
		read:    make.Counters("promwarp_replica_selections_total", "Selectors that were answered with samples of a replica.", "replica"),
		failed:  make.Counters("promwarp_replica_failures_total", "Selectors for which a replica failed, or was known to be away.", "replica"),
	}
	for _, one := range all {
		s.upstreams, s.away = append(s.upstreams, one.Upstream), append(s.away, one.Away)
		s.read.WithLabelValues(one.Name)
		s.failed.WithLabelValues(one.Name)
	}
	return s
}

var (
	_ storage.SampleAndChunkQueryable = (*Replicas)(nil)
	_ Cache                           = (*Replicas)(nil)
)

// Querier implements storage.Queryable, without a request.
func (s *Replicas) Querier(mint, maxt int64) (storage.Querier, error) {
	return selection.Storage{Source: s}.Querier(mint, maxt)
}

// ChunkQuerier implements storage.ChunkQueryable, without a request.
func (s *Replicas) ChunkQuerier(mint, maxt int64) (storage.ChunkQuerier, error) {
	return selection.Storage{Source: s}.ChunkQuerier(mint, maxt)
}

// Open implements selection.Source.
func (s *Replicas) Open(r selection.Request, mint, maxt int64) selection.Reader {
	return &replicaReader{s: s, readers: s.open(r, mint, maxt)}
}

// replicaReader reads for a request. Each selector is answered for itself.
type replicaReader struct {
	s *Replicas
	readers
}

// SelectChunks implements selection.Querier.
func (r *replicaReader) SelectChunks(ctx context.Context, hints *storage.SelectHints, matchers ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	ask := selection.Ask{Ctx: ctx, Matchers: matchers}
	ask.MinT, ask.MaxT = selection.Bounds(hints, r.mint, r.maxt)
	if hints != nil {
		ask.Function = hints.Func
	}
	return r.BeginChunks([]selection.Ask{ask})[0](ctx)
}

// asHinted returns asks with the times that Prometheus's engine would hint at, and not those of the
// first and last steps: Thanos's merge depends on where samples begin and end. Only one selector's
// begin is known.
func (r *replicaReader) asHinted(asks []selection.Ask) []selection.Ask {
	asks = slices.Clone(asks)
	last := int64(math.MinInt64)
	for _, ask := range asks {
		last = max(last, ask.MaxT)
	}
	for i := range asks {
		asks[i].MaxT += r.maxt - last
	}
	if len(asks) == 1 {
		asks[0].MinT = r.mint
	}
	return asks
}

// BeginChunks implements selection.Beginner.
func (r *replicaReader) BeginChunks(asks []selection.Ask) []selection.Get {
	if r.s.penalty {
		asks = r.asHinted(asks)
	}
	present, away := r.present()
	begun := make([][]selection.Get, len(r.in))
	for k, u := range present {
		if k == 0 && !r.s.penalty {
			begun[u] = r.in[u].BeginChunks(asks)
			break
		}
		own := make([]selection.Ask, len(asks))
		for i, ask := range asks {
			ask.Came = nil // a part of one replica's is none of what all have
			ask.MinT = replicas.Begin(ask.MinT)
			own[i] = ask
		}
		begun[u] = r.in[u].BeginChunks(own)
	}
	gets := make([]selection.Get, len(asks))
	for i, ask := range asks {
		gets[i] = func(ctx context.Context) (*selection.Selection, annotations.Annotations, error) {
			a := &attempt{r: r, ask: ask, present: present}
			for _, u := range away {
				a.fail(u, r.s.away[u]())
			}
			get := func(u int) selection.Get {
				if begun[u] != nil {
					return begun[u][i]
				}
				one := ask
				one.Came = nil
				return r.in[u].BeginChunks([]selection.Ask{one})[0]
			}
			if r.s.penalty {
				return a.merged(ctx, get)
			}
			return a.one(ctx, get)
		}
	}
	return gets
}

// present returns the replicas that can be asked, or all if none can, and the others.
func (r *replicaReader) present() (present, away []int) {
	for u, why := range r.s.away {
		if why() != nil {
			away = append(away, u)
		} else {
			present = append(present, u)
		}
	}
	if len(present) == 0 {
		return away, nil
	}
	return present, away
}

// attempt is how one selector is answered.
type attempt struct {
	r       *replicaReader
	ask     selection.Ask
	present []int // replicas that can be asked
	without []*ReplicaError
}

// ReplicaError says why a replica was not read.
type ReplicaError struct {
	Replica string
	Err     error // why
}

func (e *ReplicaError) Error() string { return fmt.Sprintf("replica %s: %v", e.Replica, e.Err) }

func (e *ReplicaError) Unwrap() error { return e.Err }

// fail notes that a replica is not read.
func (a *attempt) fail(u int, err error) {
	name := a.r.s.upstreams[u].Name
	if err == nil {
		err = errors.New("it was away")
	}
	a.without = append(a.without, &ReplicaError{name, err})
	a.r.s.failed.WithLabelValues(name).Inc()
	a.r.stats[u].Fail(err)
}

// err is what all replicas said, none of which was read.
func (a *attempt) err() error {
	err := error(a.without[0])
	for _, e := range a.without[1:] {
		err = fmt.Errorf("%w; %w", err, e)
	}
	return err
}

// use notes that samples of a replica are used.
func (a *attempt) use(u int) { a.r.s.read.WithLabelValues(a.r.s.upstreams[u].Name).Inc() }

// one answers with the samples of the first replica that can be read, and in its gaps with others'.
func (a *attempt) one(ctx context.Context, get func(u int) selection.Get) (*selection.Selection, annotations.Annotations, error) {
	for k, u := range a.present {
		sel, ws, err := get(u)(ctx)
		if err == nil {
			a.use(u)
			return a.filled(ctx, sel, ws, a.present[k+1:])
		}
		if ctx.Err() != nil || errors.Is(err, selection.ErrTooLarge) {
			return nil, ws, err // another's answer would be no better
		}
		a.fail(u, err)
	}
	return nil, nil, a.err()
}

// filled returns sel with the samples that others have in its gaps.
func (a *attempt) filled(ctx context.Context, sel *selection.Selection, ws annotations.Annotations, others []int) (*selection.Selection, annotations.Annotations, error) {
	maxt := min(a.ask.MaxT, time.Now().UnixMilli())
	gaps, err := replicas.Gaps(ctx, sel, a.ask.MinT, maxt)
	for k := 0; k < len(others) && err == nil && len(gaps) > 0; k++ {
		u, one := others[k], a.ask
		one.Came, one.MinT, one.MaxT = nil, gaps[0].From+1, gaps[len(gaps)-1].To-1
		other, more, failed := a.r.in[u].BeginChunks([]selection.Ask{one})[0](ctx)
		if err = ctx.Err(); err != nil {
			break
		}
		if failed != nil {
			a.fail(u, failed)
			continue
		}
		parts, filled := []*selection.Selection{sel, other}, []replicas.Gap(nil)
		sel, err = discarding(ctx, parts, func() (out *selection.Selection, err error) {
			out, filled, err = replicas.Fill(ctx, sel, other, gaps)
			return out, err
		})
		if len(filled) > 0 {
			a.use(u)
			ws.Merge(more)
			gaps, err = replicas.Gaps(ctx, sel, a.ask.MinT, maxt)
		}
	}
	if err != nil {
		return nil, ws, err
	}
	if len(gaps) > 0 {
		for _, e := range a.without {
			ws.Add(fmt.Errorf("samples may be missing from %s on: %w", time.UnixMilli(gaps[0].From).UTC().Format(time.RFC3339), e))
		}
	}
	return sel, ws, nil
}

// merged answers with the samples of all replicas that can be read.
func (a *attempt) merged(ctx context.Context, get func(u int) selection.Get) (*selection.Selection, annotations.Annotations, error) {
	answers := make([]answer, len(a.present))
	var g errgroup.Group
	for k, u := range a.present {
		one, of := &answers[k], get(u)
		g.Go(func() error {
			one.err = parallel.Rescue(func() (err error) {
				one.sel, one.ws, err = of(ctx)
				return err
			})
			return nil
		})
	}
	_ = g.Wait() // each has its own error
	var ws annotations.Annotations
	var parts []*selection.Selection
	for k, one := range answers {
		u := a.present[k]
		if one.err != nil {
			if ctx.Err() != nil {
				return nil, nil, one.err
			}
			a.fail(u, one.err)
			continue
		}
		a.use(u)
		ws.Merge(one.ws)
		parts = append(parts, one.sel)
	}
	if len(parts) == 0 {
		return nil, nil, a.err()
	}
	for _, e := range a.without {
		ws.Add(fmt.Errorf("partial answer, of the other replicas alone: %w", e))
	}
	sel, err := discarding(ctx, parts, func() (*selection.Selection, error) {
		return replicas.Penalty(ctx, a.ask.MinT, a.ask.MaxT, replicas.Counting(a.ask.Function), parts...)
	})
	return sel, ws, err
}

// LabelValues implements storage.LabelQuerier. Replicas are asked for lists over HTTP.
func (r *replicaReader) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, cache.ErrNoLabels
}

// LabelNames implements storage.LabelQuerier, as LabelValues.
func (r *replicaReader) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, cache.ErrNoLabels
}
