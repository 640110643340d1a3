package fanout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/internal/instrument"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/replicas"
)

// Replicas are upstreams that have the same, but for when they were down, as one. A selector's samples are
// those of one replica, the first that can be read; where it has a gap, they are another's. With penalty
// they are all replicas', merged as Thanos does. Each cache keeps what its own replica said, and nothing that
// was merged is kept. It is a selection.Source, safe for concurrent use.
type Replicas struct {
	upstreams
	penalty bool
	read    *prometheus.CounterVec
	failed  *prometheus.CounterVec
}

// NewReplicas returns replicas as one upstream. r receives its metrics; nil means none.
func NewReplicas(r prometheus.Registerer, penalty bool, ups ...Upstream) *Replicas {
	make := instrument.With(r)
	s := &Replicas{
		upstreams: ups, penalty: penalty,
		read:   make.Counters("promwarp_replica_selections_total", "Selectors that were answered with samples of a replica.", "replica"),
		failed: make.Counters("promwarp_replica_failures_total", "Selectors for which a replica failed, or was known to be away.", "replica"),
	}
	for _, u := range ups {
		s.read.WithLabelValues(u.Name)
		s.failed.WithLabelValues(u.Name)
	}
	return s
}

var (
	_ Cache = (*Replicas)(nil)
)

// Open implements selection.Source.
func (s *Replicas) Open(r selection.Request, mint, maxt int64) selection.Reader {
	return &replicaReader{s: s, readers: s.open(r, mint, maxt)}
}

// replicaReader reads for a request. Each selector is answered for itself.
type replicaReader struct {
	s *Replicas
	readers
}

// Holdings implements selection.Keeper: what the first replica has. Gaps of it, and merges of all,
// cost more.
func (r *replicaReader) Holdings(a selection.Ask, most int) []selection.Holding {
	return r.in[0].Holdings(a, most)
}

// SelectChunks implements selection.Querier.
func (r *replicaReader) SelectChunks(ctx context.Context, hints *storage.SelectHints, matchers ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	return r.BeginChunks(r.ask(ctx, hints, matchers))[0](ctx)
}

// BeginChunks implements selection.Beginner. Thanos's merge depends on the very times that are hinted at.
func (r *replicaReader) BeginChunks(asks []selection.Ask) []selection.Get {
	asks, hints := slices.Clone(asks), make([]storage.SelectHints, len(asks))
	for i := range asks {
		a, h := &asks[i], &hints[i]
		if r.s.penalty {
			a.Came = nil // a part of one replica's is none of what all have
			if a.Hints != nil {
				*h = a.Hints()
			}
			a.MinT, a.MaxT = selection.Bounds(h, a.MinT, a.MaxT)
			h.Start, h.End = a.MinT, a.MaxT
		}
	}
	var present []int
	away := map[int]error{}
	for u, up := range r.s.upstreams {
		if err := up.Away(); err != nil {
			away[u] = err
		} else {
			present = append(present, u)
		}
	}
	if len(present) == 0 { // all are asked
		present = slices.Sorted(maps.Keys(away))
		clear(away)
	}
	begun := make([][]selection.Get, len(present))
	for k, u := range present {
		if k == 0 || r.s.penalty {
			begun[k] = r.in[u].BeginChunks(asks)
		}
	}
	gets := make([]selection.Get, len(asks))
	for i, ask := range asks {
		gets[i] = func(ctx context.Context) (*selection.Selection, annotations.Annotations, error) {
			a := &attempt{r: r, ask: ask, present: present}
			for _, u := range slices.Sorted(maps.Keys(away)) {
				a.fail(u, away[u])
			}
			if r.s.penalty {
				return a.merged(ctx, hints[i], func(k int) selection.Get { return begun[k][i] })
			}
			return a.filled(ctx, begun[0][i])
		}
	}
	return gets
}

// attempt is how one selector is answered.
type attempt struct {
	r       *replicaReader
	ask     selection.Ask
	present []int // replicas that are asked
	ws      annotations.Annotations
	without []error // why replicas are not read
}

// fail notes that a replica is not read.
func (a *attempt) fail(u int, err error) {
	name := a.r.s.upstreams[u].Name
	a.without = append(a.without, fmt.Errorf("replica %s: %w", name, err))
	a.r.s.failed.WithLabelValues(name).Inc()
	a.r.stats[u].Fail(err)
}

// use notes that samples of a replica are used, which came with warnings.
func (a *attempt) use(u int, ws annotations.Annotations) {
	a.r.s.read.WithLabelValues(a.r.s.upstreams[u].Name).Inc()
	a.ws.Merge(ws)
}

// err is what all replicas said, none of which was read.
func (a *attempt) err() error {
	err := a.without[0]
	for _, e := range a.without[1:] {
		err = fmt.Errorf("%w; %w", err, e)
	}
	return err
}

// filled answers with the samples of the first replica that can be read, which get gets of the first one,
// and in its gaps with others'.
func (a *attempt) filled(ctx context.Context, get selection.Get) (sel *selection.Selection, ws annotations.Annotations, err error) {
	ask, maxt := a.ask, min(a.ask.MaxT, time.Now().UnixMilli())
	var gaps []replicas.Gap
	for k, u := range a.present {
		if ask.Came = nil; sel != nil {
			ask.MinT, ask.MaxT = gaps[0].From+1, gaps[len(gaps)-1].To-1
		}
		if k > 0 {
			get = a.r.in[u].BeginChunks([]selection.Ask{ask})[0]
		}
		base := sel
		other, more, err := get(ctx)
		switch {
		case ctx.Err() != nil || base == nil && errors.Is(err, selection.ErrTooLarge):
			return nil, more, cmp.Or(err, ctx.Err()) // another's answer would be no better
		case err != nil:
			a.fail(u, err)
			continue
		case base == nil:
			sel = other
		default:
			sel, err = discarding(ctx, []*selection.Selection{base, other}, func() (*selection.Selection, error) { return replicas.Fill(ctx, base, other, gaps) })
		}
		if err == nil && sel != base {
			a.use(u, more)
			gaps, err = replicas.Gaps(ctx, sel, a.ask.MinT, maxt)
		}
		if err != nil || len(gaps) == 0 {
			return sel, a.ws, err
		}
	}
	if sel == nil {
		return nil, nil, a.err()
	}
	for _, e := range a.without {
		a.ws.Add(fmt.Errorf("samples may be missing from %s on: %w", time.UnixMilli(gaps[0].From).UTC().Format(time.RFC3339), e))
	}
	return sel, a.ws, nil
}

// merged answers with the samples of all replicas that can be read.
func (a *attempt) merged(ctx context.Context, hints storage.SelectHints, get func(k int) selection.Get) (*selection.Selection, annotations.Annotations, error) {
	var parts []*selection.Selection
	for k, u := range a.present {
		part, ws, err := get(k)(ctx)
		switch {
		case ctx.Err() != nil:
			return nil, nil, cmp.Or(err, ctx.Err())
		case err != nil:
			a.fail(u, err)
		default:
			a.use(u, ws)
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return nil, nil, a.err()
	}
	for _, e := range a.without {
		a.ws.Add(fmt.Errorf("partial answer, of the other replicas alone: %w", e))
	}
	sel, err := discarding(ctx, parts, func() (*selection.Selection, error) { return replicas.Penalty(ctx, hints, parts...) })
	return sel, a.ws, err
}

// LabelValues implements storage.LabelQuerier. Replicas are asked for lists over HTTP.
func (r *replicaReader) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, cache.ErrNoLabels
}

// LabelNames implements storage.LabelQuerier, as LabelValues.
func (r *replicaReader) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, cache.ErrNoLabels
}
