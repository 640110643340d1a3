package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/remoteread"
	"github.com/promwarp/promwarp/remoteread/upstream"
)

// startTimeout is how long a start waits for an upstream to say how it is set, and then
// for it to answer a probe.
const startTimeout = 5 * time.Second

// follower follows how a store's upstream is set. A nil one has nothing to follow.
type follower struct {
	*upstream.Watcher
	client *remoteread.Client
	name   string
	labels config.ExternalLabels

	mu    sync.Mutex
	last  upstream.Facts // when something changed last
	clear func()         // forgets what is cached; nil before there is a cache
}

// follow begins to follow the upstream of a store with the given key, which c reads from.
// changed, which may be nil, is called when something that answers depend on has changed.
func follow(c *remoteread.Client, k StoreKey, name string, changed func(), logger *slog.Logger) *follower {
	f := &follower{client: c, name: name, labels: k.fetch.ExternalLabels}
	f.Watcher = upstream.New(upstream.Options{
		Base: k.From.Base, Client: c.HTTPClient(), Name: name, ExternalLabels: f.labels.Labels(),
		Changed: func() {
			f.relabelled()
			if changed != nil {
				changed()
			}
		},
		Away:   f.away,
		Logger: logger.With("component", "upstream"),
	})
	c.SetExternal(f.Watcher)
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	f.Start(ctx)
	return f
}

// Close ends following.
func (f *follower) Close() {
	if f != nil {
		f.Watcher.Close()
	}
}

// away probes the upstream if it was not read or is away, and reports whether that is still so.
func (f *follower) away(ctx context.Context) bool {
	if read, since, _ := f.client.Reach(); read && since.IsZero() {
		return false
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errNoAnswer)
	defer cancel()
	return f.client.Probe(ctx) != nil
}

var errNoAnswer = fmt.Errorf("no answer within %s", startTimeout)

// clears says how to forget what is cached.
func (f *follower) clears(clear func()) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clear = clear
	f.last = f.Facts()
}

// relabelled forgets what is cached under external labels that are no more. Where they
// are known and taken off, what is cached does not depend on them.
func (f *follower) relabelled() {
	f.mu.Lock()
	defer f.mu.Unlock()
	was, is := f.last, f.Facts()
	f.last = is
	same := labels.Equal(was.ExternalLabels, is.ExternalLabels)
	if f.clear != nil && !same && (was.NoConfig || f.labels.Keep && was.LabelsKnown) {
		f.clear()
	}
}

// identity is what samples cached on disk depend on besides their source, and whether
// that is certain.
func (f *follower) identity() (string, bool) {
	switch {
	case f == nil:
		return "", true
	case f.labels.Keep:
		facts := f.Facts()
		return " with external labels " + facts.ExternalLabels.String(), facts.LabelsKnown
	case f.labels.Labels() != nil:
		return " without external labels " + f.labels.Given, true
	}
	return " without external labels", true
}

// instead says what to point promwarp at instead of a server without remote read.
const instead = "point promwarp at a Prometheus, a Mimir or a Cortex; for Thanos, list the Prometheus of each sidecar under remote_read, " +
	"or have a Thanos sidecar read from promwarp, which then is a leaf of the Querier; VictoriaMetrics has none, so promwarp cannot stand in front of it"

// probe reads a little by remote read. That there is none is an error; that nothing
// answers is not, since it may before long.
func (f *follower) probe(c *remoteread.Client, logger *slog.Logger) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), startTimeout, errNoAnswer)
	defer cancel()
	err := c.Probe(ctx)
	switch {
	case remoteread.NoRemoteRead(err):
		return config.Usage(fmt.Errorf("%w; promwarp gets samples by Prometheus's remote read, which this server does not have: "+instead, err))
	case err != nil:
		logger.Warn("the upstream does not answer remote read; queries fail until it does", "upstream", f.name, "err", err)
	}
	return nil
}

// StartTimestamps says whether queries use start timestamps, which only chunks have.
func (b *Backend) StartTimestamps(used bool) {
	for _, st := range b.Stores {
		if st.Follower != nil {
			st.Follower.client.PreferSamples(!used)
		}
	}
}

// Facts are what is known of all upstreams together: of several those of the first.
func (b *Backend) Facts() upstream.Facts {
	for _, st := range b.Stores {
		if st.Follower != nil {
			return st.Follower.Facts()
		}
	}
	return upstream.Facts{}
}

// ExternalLabels are those that all upstreams add to what they send, as remote read gives
// them on: none where they differ, or where they are not taken off.
func (b *Backend) ExternalLabels() labels.Labels {
	var all labels.Labels
	for i, st := range b.Stores {
		if st.Follower == nil || st.Follower.labels.Keep {
			return labels.EmptyLabels()
		}
		l := st.Follower.Facts().ExternalLabels
		if i > 0 && !labels.Equal(l, all) {
			return labels.EmptyLabels()
		}
		all = l
	}
	return all
}

// Ready is an error as long as an upstream that queries need was not read yet, or with present, is away:
// each of those without on_failure: warn, and one at least where all have that. notes say since when
// upstreams are away, a line each.
func (b *Backend) Ready(present bool) (notes []string, err error) {
	lacking := 0
	for i, st := range b.Stores {
		if st.Follower == nil {
			continue
		}
		read, since, why := st.Follower.client.Reach()
		if read && since.IsZero() {
			continue
		}
		st.Follower.Nudge() // to notice soon that it is back
		note := fmt.Sprintf("%s is away since %s: %v", st.name, since.UTC().Format(time.RFC3339), why)
		if !read {
			note = fmt.Sprintf("%s was not read yet: %v", st.name, cmp.Or(why, errNoAnswer))
		}
		if !read || present {
			lacking++
			if !b.optional[i] {
				err = errors.Join(err, errors.New(note))
				continue
			}
		}
		notes = append(notes, note)
	}
	if err == nil && lacking > 0 && lacking == len(b.Stores) {
		err = errors.New("none of the upstreams can be read")
	}
	return notes, err
}

// Known says how the upstreams are set, a line each, and what is not known of them.
func (b *Backend) Known() (lines []string) {
	first := b.Facts()
	for i, st := range b.Stores {
		if st.Follower == nil {
			continue
		}
		facts := st.Follower.Facts()
		lines = append(lines, st.name+": "+facts.String())
		for _, what := range facts.Unknown {
			lines = append(lines, st.name+": not known: "+what)
		}
		if i > 0 && (facts.EvaluationInterval != first.EvaluationInterval || facts.Lookback != first.Lookback || facts.Features != first.Features) {
			lines = append(lines, st.name+": its evaluation interval, lookback delta or features are not those of the first upstream, which hold")
		}
	}
	return lines
}
