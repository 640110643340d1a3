package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/api/forward"
	"github.com/promwarp/promwarp/api/leaf"
	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/refcount"
	"github.com/promwarp/promwarp/remoteread"
	"github.com/promwarp/promwarp/remoteread/tsdbdir"
	"github.com/promwarp/promwarp/remoteread/upstream"
)

// Store is an open source and the cache in front of it.
type Store struct {
	*refcount.Count
	Key      StoreKey
	name     string
	Cache    *cache.Cache
	remote   *forward.Remote    // nil when labels are listed here
	Follower *follower          // of such a server's settings, or nil
	thanos   *remoteread.Store  // nil when it is no store of Thanos
	client   *remoteread.Client // of either; nil of a directory
	watcher  *upstream.Watcher  // that asks it, and can be nudged; nil of a directory
	Reg      *prometheus.Registry
	close    func() // of the source
}

// StoreKey is what a store depends on: when it changes there must be a new one.
type StoreKey struct {
	name  string // the source's among several; empty where there is one
	From  config.Source
	fetch config.UpstreamSettings // without the URL, which is in from
	cache config.CacheSettings
	// tile is cache.Options.Tile: cache.DefaultTile, or what chunks have to come for as the server has them.
	tile time.Duration
}

// Options are what stores are opened with besides the settings.
type Options struct {
	Upstream cache.Upstream // in place of the sources that the settings name; may be nil
	Prev     []*Store       // stores to take over from
	Memory   *memory.Pool   // of the process; nil without a limit
	// Changed is called when something that answers depend on has changed about a source;
	// may be nil.
	Changed func()
	Reg     prometheus.Registerer // for metrics of all stores together
	Logger  *slog.Logger
}

// openStore opens the source that k names, or o.upstream. It takes over the directory of
// that of o.prev which has the same.
func openStore(k StoreKey, o Options) (*Store, error) {
	up, logger := o.Upstream, o.Logger
	st := &Store{Key: k, name: cmp.Or(k.name, k.From.String()), Reg: prometheus.NewRegistry(), close: func() {}}
	st.Count = refcount.New(func() { st.close() })
	if up == nil {
		var err error
		if up, st.close, err = openSource(k, o, st.Reg); err != nil {
			return nil, config.Usage(err)
		}
		if err = st.ask(up, o, logger); err != nil {
			st.Release()
			return nil, config.Usage(err)
		}
	}
	fresh := time.Duration(k.cache.Fresh)
	if fresh == 0 {
		fresh = -1 // none, where the cache takes 0 for its default
	}
	files, err := openFiles(k, st, o, logger.With("component", "cache"))
	if err != nil {
		st.Release()
		return nil, err
	}
	reg := prometheus.Registerer(st.Reg)
	if k.name != "" {
		reg = prometheus.WrapRegistererWith(prometheus.Labels{"upstream": k.name}, reg)
	}
	st.Cache = cache.New(up, cache.Options{
		Disk:       files,
		Tile:       k.tile,
		HostBytes:  int64(k.cache.HostBytes - k.cache.DecodedBytes),
		Fresh:      fresh,
		Recheck:    time.Duration(k.cache.Recheck),
		OutOfOrder: time.Duration(k.cache.OutOfOrderWindow),
		MaxAge:     time.Duration(k.cache.MaxAge),
		Retention:  time.Duration(k.fetch.Retention),
		Prefetch: cache.Budget{
			Requests: float64(k.cache.PrefetchRequests), Bytes: int64(k.cache.PrefetchBytes),
		},
		Logger:     logger.With("component", "cache"),
		Registerer: reg,
	})
	if f := st.Follower; f != nil {
		f.mu.Lock()
		f.clear, f.last = st.Cache.Clear, f.Facts()
		f.mu.Unlock()
	}
	if st.thanos != nil {
		st.thanos.OnRelabelled(st.Cache.Clear) // what is cached has the labels that were
	}
	unwatch := o.Memory.Watch("labels", st.Cache.LabelBytes.Load)
	endReclaim := o.Memory.OnShortage(reclaimTiles, st.Cache.Reclaim)
	st.OnClose(func() {
		unwatch()
		endReclaim()
		if err := st.Cache.Close(); err != nil {
			logger.Warn("closing cache.path failed", "err", err)
		}
		st.close()
	})
	return st, nil
}

// ask asks the server or the store of Thanos that up reads from how it is set and whether it can be read,
// and goes on until the store is closed. An error is of one that can never be.
func (st *Store) ask(up cache.Upstream, o Options, logger *slog.Logger) (err error) {
	k, closed, silent := st.Key, st.close, "the upstream does not answer remote read"
	switch up := up.(type) {
	case *remoteread.Client:
		up.PreferSamples(k.tile == cache.DefaultTile)
		st.Follower = follow(up, k, st.name, o.Changed, logger)
		st.client, st.watcher = up, st.Follower.Watcher
		st.remote = &forward.Remote{Name: st.name, Base: k.From.Base, Transport: up.HTTPClient().Transport}
		if k.fetch.ExternalLabels.Keep {
			st.remote.Kept = func() labels.Labels { return st.Follower.kept() }
		}
		err = within(startTimeout, up.Probe)
	case *remoteread.Store:
		st.thanos, st.client, silent = up, up.Client, "the store does not answer"
		away := func(ctx context.Context) bool { return up.Probe(ctx) != nil }
		st.watcher = upstream.New(upstream.Options{Name: st.name, Every: infoEvery, Away: away})
		st.watcher.Start(context.Background())
		err = within(startTimeout, up.Probe)
	default:
		return nil
	}
	st.close = func() {
		st.watcher.Close()
		closed()
	}
	switch {
	case remoteread.NoRemoteRead(err):
		return fmt.Errorf("%w; promwarp gets samples by Prometheus's remote read, which this server does not have: "+instead, err)
	case remoteread.NoStore(err):
		return fmt.Errorf("%s: %w", k.From.Setting, err)
	case err != nil: // something may answer before long
		st.watcher.Nudge() // to ask again soon
		logger.Warn(silent+"; queries fail until it does", "upstream", st.name, "err", err)
	}
	return nil
}

// infoEvery is how often a store of Thanos is asked what it is.
const infoEvery = 30 * time.Second

// within calls f, which has that long.
func within(d time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), d, errNoAnswer)
	defer cancel()
	return f(ctx)
}

// openSource opens what a store reads from. Nothing is asked of a server yet. Errors begin with the
// setting that is wrong.
func openSource(k StoreKey, o Options, reg prometheus.Registerer) (up cache.Upstream, closed func(), err error) {
	if k.From.Store != nil {
		s, err := remoteread.NewStore(*k.From.Store, remoteread.Options{
			Concurrency: k.fetch.Concurrency, MaxFrameBytes: int64(k.fetch.MaxFrameBytes), MaxBytes: int64(k.fetch.MaxBytes),
			Memory: o.Memory, Logger: o.Logger.With("component", "store"), Registerer: reg,
		})
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", k.From.Setting, err)
		}
		return s, s.Close, nil
	}
	if k.From.Remote == nil {
		d, err := tsdbdir.Open(k.From.Dir, o.Logger.With("component", "data directory"))
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", k.From.Setting, err)
		}
		return d, d.Close, nil
	}
	c, err := remoteread.NewClient(k.From.Remote, remoteread.Options{
		Concurrency:   k.fetch.Concurrency,
		KeepExternal:  k.fetch.ExternalLabels.Keep,
		ReplicaLabels: strings.FieldsFunc(k.fetch.ReplicaLabels, func(r rune) bool { return r == ',' || r == ' ' }),
		MaxFrameBytes: int64(k.fetch.MaxFrameBytes),
		MaxBytes:      int64(k.fetch.MaxBytes),
		Memory:        o.Memory,
		Logger:        o.Logger.With("component", "remote read"),
		Registerer:    reg,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", k.From.Setting, err)
	}
	return c, c.CloseIdle, nil
}

// openFiles opens cache.path, if there is one. If one of prev has the same, that
// writes what it still has to write, and goes on in memory alone for the requests
// that it has to answer.
func openFiles(k StoreKey, st *Store, o Options, logger *slog.Logger) (*disk.Store, error) {
	if k.cache.Path == "" {
		return nil, nil
	}
	identity, err := k.From.Identity()
	if err != nil {
		return nil, err
	}
	labelled, certain := st.identity()
	if !certain {
		logger.Warn("the upstream does not say yet which external labels it adds, so what is cached stays in memory until the next start")
		return nil, nil
	}
	identity += k.tile.String() + labelled
	for _, p := range o.Prev {
		if p.Key.cache.Path != k.cache.Path {
			continue
		}
		if err := p.Cache.Close(); err != nil {
			return nil, fmt.Errorf("cache.path %s: %w", k.cache.Path, err)
		}
	}
	files, err := disk.Open(disk.Options{
		Path:     k.cache.Path,
		Limit:    int64(k.cache.DiskBytes),
		Identity: identity,
		Memory:   o.Memory,
		Logger:   logger,
	})
	switch {
	case errors.Is(err, syscall.EROFS):
		logger.Warn("cache.path is on a read-only disk, so what is cached stays in memory until the next start", "path", k.cache.Path)
		return nil, nil
	case err != nil:
		return nil, config.Usage(fmt.Errorf("cache.path %s: %w", k.cache.Path, err))
	}
	return files, nil
}

// What makes room when requests lack memory, in this order: decoded columns cost decoding
// when they are asked for again, tiles cost a fetch or reading from disk.
const (
	reclaimDecoded = iota
	reclaimTiles
)

// startTimeout is how long a start waits for an upstream to say how it is set, and then
// for it to answer a probe.
const startTimeout = 5 * time.Second

// follower follows how a store's upstream is set. A nil one has nothing to follow.
type follower struct {
	*upstream.Watcher
	client *remoteread.Client
	labels config.ExternalLabels

	mu    sync.Mutex
	last  upstream.Facts // when something changed last
	clear func()         // forgets what is cached; nil before there is a cache
}

// follow begins to follow the upstream of a store with the given key, which c reads from.
// changed, which may be nil, is called when something that answers depend on has changed.
func follow(c *remoteread.Client, k StoreKey, name string, changed func(), logger *slog.Logger) *follower {
	f := &follower{client: c, labels: k.fetch.ExternalLabels}
	f.Watcher = upstream.New(upstream.Options{
		Base: k.From.Base, Client: c.HTTPClient(), Name: name, ExternalLabels: f.labels.Labels(),
		Changed: func() {
			// What is cached under external labels that are no more is forgotten. Where they are
			// known and taken off, what is cached does not depend on them.
			f.mu.Lock()
			was, is := f.last, f.Facts()
			f.last = is
			same := labels.Equal(was.ExternalLabels, is.ExternalLabels)
			if f.clear != nil && !same && (was.NoConfig || f.labels.Keep && was.LabelsKnown) {
				f.clear()
			}
			f.mu.Unlock()
			if changed != nil {
				changed()
			}
		},
		// It is probed if it was not read, is away or there is no witness of its external labels.
		Away: func(ctx context.Context) bool {
			if read, since, _ := c.Reach(); read && since.IsZero() && c.Witnessed() {
				return false
			}
			ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errNoAnswer)
			defer cancel()
			return c.Probe(ctx) != nil
		},
		Logger: logger.With("component", "upstream"),
	})
	c.SetExternal(f.Watcher)
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	f.Start(ctx)
	return f
}

// away says why the upstream cannot be asked; nil if it can.
func (f *follower) away() error {
	_, since, why := f.client.Reach()
	if since.IsZero() {
		return nil
	}
	if time.Since(since) < startTimeout {
		f.Nudge() // from then on it is probed often
	}
	return cmp.Or(why, errNoAnswer)
}

// kept are the external labels that series keep.
func (f *follower) kept() labels.Labels { return f.client.Kept(f.Facts().ExternalLabels) }

var errNoAnswer = fmt.Errorf("no answer within %s", startTimeout)

// identity is what samples cached on disk depend on besides their source, and whether
// that is certain.
func (f *follower) identity() (string, bool) {
	switch {
	case f == nil:
		return "", true
	case f.labels.Keep:
		facts := f.Facts()
		return " with external labels " + f.kept().String(), facts.LabelsKnown
	case f.labels.Labels() != nil:
		return " without external labels " + f.labels.Given, true
	}
	return " without external labels", true
}

// identity is what samples cached on disk depend on besides their source, and whether that is certain.
func (st *Store) identity() (string, bool) {
	if st.thanos == nil {
		return st.Follower.identity()
	}
	facts, known := st.thanos.Facts()
	if len(facts.Labels) != 1 {
		return " of several", known
	}
	return " with external labels " + facts.Labels[0].String(), known
}

// instead says what to point promwarp at instead of a server without remote read.
const instead = "point promwarp at a Prometheus, a Mimir or a Cortex; for Thanos, list sidecars, store gateways or a Querier under stores, " +
	"or have a Thanos sidecar read from promwarp, which then is a leaf of the Querier; VictoriaMetrics has none, so promwarp cannot stand in front of it"

// StartTimestamps says whether queries use start timestamps, which only chunks have.
func (b *Backend) StartTimestamps(used bool) {
	for _, st := range b.Stores {
		if st.Follower != nil {
			st.Follower.client.PreferSamples(!used && st.Key.tile == cache.DefaultTile)
		}
	}
}

// known is the first store of an upstream of which it is known how it is set; nil if none is followed.
func (u *upstreamOf) known() *Store {
	var first *Store
	for _, st := range u.stores {
		if st.Follower == nil {
			continue
		}
		if st.Follower.Facts().LabelsKnown {
			return st
		}
		first = cmp.Or(first, st)
	}
	return first
}

// external are the external labels of an upstream, without that by which replicas differ.
func (u *upstreamOf) external() labels.Labels {
	l := u.known().Follower.Facts().ExternalLabels
	if u.replicas != nil {
		l = labels.NewBuilder(l).Del(u.replicas.Label).Labels()
	}
	return l
}

// Facts are what is known of all upstreams together: of several those of the first.
func (b *Backend) Facts() upstream.Facts {
	for _, u := range b.upstreams {
		if st := u.known(); st != nil {
			return st.Follower.Facts()
		}
	}
	return upstream.Facts{}
}

// Sources are the upstreams, as Thanos's Queriers are told of them.
func (b *Backend) Sources() []leaf.Source {
	var all []leaf.Source
	for _, u := range b.upstreams {
		one := leaf.Source{Retention: time.Duration(u.stores[0].Key.fetch.Retention)}
		if st := u.known(); st != nil {
			if one.Labels, one.Shown = u.external(), st.Follower.labels.Keep; st.Follower.labels.Keep {
				one.Labels = st.Follower.kept()
			}
		}
		var sets []labels.Labels
		if st := u.stores[0]; st.thanos != nil {
			facts, _ := st.thanos.Facts()
			sets, one.Shown = facts.Labels, true
		}
		for _, l := range sets {
			one.Labels = l
			all = append(all, one)
		}
		if len(sets) == 0 {
			all = append(all, one)
		}
	}
	return all
}

// ExternalLabels are those that all upstreams add to what they send, as remote read gives
// them on: none where they differ, or where they are not taken off.
func (b *Backend) ExternalLabels() labels.Labels {
	var all labels.Labels
	for i, u := range b.upstreams {
		st := u.known()
		if st == nil || st.Follower.labels.Keep {
			return labels.EmptyLabels()
		}
		l := u.external()
		if i > 0 && !labels.Equal(l, all) {
			return labels.EmptyLabels()
		}
		all = l
	}
	return all
}

// Ready is an error as long as an upstream that queries need was not read yet, or with present, is away:
// each of those without on_failure: warn, and one at least where all have that. Of replicas one is
// enough. notes say since when upstreams are away, a line each.
func (b *Backend) Ready(present bool) (notes []string, err error) {
	lacking := 0
	for _, u := range b.upstreams {
		var away []string
		for _, st := range u.stores {
			note, lacks := st.ready(present)
			switch {
			case lacks:
				away = append(away, note)
			case note != "":
				notes = append(notes, note)
			}
		}
		if len(away) == len(u.stores) {
			lacking++
			if !u.optional {
				err = errors.Join(err, errors.New(strings.Join(away, "\n")))
				continue
			}
		}
		notes = append(notes, away...)
	}
	if err == nil && lacking > 0 && lacking == len(b.upstreams) {
		err = errors.New("none of the upstreams can be read")
	}
	return notes, err
}

// ready says since when the store's upstream is away, and whether queries lack it: it was not read yet, or
// with present, is away.
func (st *Store) ready(present bool) (note string, lacks bool) {
	if st.client == nil {
		return "", false
	}
	read, since, why := st.client.Reach()
	if read && since.IsZero() {
		return "", false
	}
	st.watcher.Nudge() // to notice soon that it is back
	if !read {
		return fmt.Sprintf("%s was not read yet: %v", st.name, cmp.Or(why, errNoAnswer)), true
	}
	return fmt.Sprintf("%s is away since %s: %v", st.name, since.UTC().Format(time.RFC3339), why), present
}

// Known says how the upstreams are set, a line each, and what is not known of them.
func (b *Backend) Known() (lines []string) {
	first := b.Facts()
	for i, st := range b.Stores {
		if st.thanos != nil {
			if facts, known := st.thanos.Facts(); known {
				lines = append(lines, st.name+": "+facts.String())
			} else {
				lines = append(lines, st.name+": not known: which external labels it has")
			}
		}
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
