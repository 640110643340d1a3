package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/api/forward"
	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/refcount"
	"github.com/promwarp/promwarp/remoteread"
	"github.com/promwarp/promwarp/remoteread/tsdbdir"
	"github.com/promwarp/promwarp/selection"
)

// Fetcher is cache.Upstream.
type Fetcher interface {
	Fetch(ctx context.Context, mint, maxt int64, matchers []*labels.Matcher) (*selection.Selection, annotations.Annotations, error)
}

// Store is an open source and the cache in front of it.
type Store struct {
	*refcount.Count
	Key      StoreKey
	name     string
	Cache    *cache.Cache
	remote   *forward.Remote // nil when labels are listed here
	Follower *follower       // of such a server's settings, or nil
	Reg      *prometheus.Registry
	close    func() // of the source
}

// StoreKey is what a store depends on: when it changes there must be a new one.
type StoreKey struct {
	name  string // the source's among several; empty where there is one
	From  config.Source
	fetch config.UpstreamSettings // without the URL, which is in from
	cache config.CacheSettings
}

func (k StoreKey) same(l StoreKey) bool {
	return k.name == l.name && k.From.Same(l.From) && k.fetch == l.fetch && k.cache == l.cache
}

// Options are what stores are opened with besides the settings.
type Options struct {
	Upstream Fetcher      // in place of the sources that the settings name; may be nil
	Prev     []*Store     // stores to take over from
	Memory   *memory.Pool // of the process; nil without a limit
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
	}
	if c, ok := up.(*remoteread.Client); ok && o.Upstream == nil {
		st.Follower = follow(c, k, st.name, o.Changed, logger)
		st.close = func() {
			st.Follower.Close()
			c.CloseIdle()
		}
		if err := st.Follower.probe(c, logger); err != nil {
			st.Release()
			return nil, err
		}
		st.remote = &forward.Remote{Name: st.name, Base: k.From.Base, Transport: c.HTTPClient().Transport}
		if k.fetch.ExternalLabels.Keep {
			st.remote.Kept = func() labels.Labels { return st.Follower.Facts().ExternalLabels }
		}
	}
	fresh := time.Duration(k.cache.Fresh)
	if fresh == 0 {
		fresh = -1 // none, where the cache takes 0 for its default
	}
	files, err := openFiles(k, st.Follower, o, logger.With("component", "cache"))
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
		HostBytes:  int64(k.cache.HostBytes - k.cache.DecodedBytes),
		Fresh:      fresh,
		Recheck:    time.Duration(k.cache.Recheck),
		OutOfOrder: time.Duration(k.cache.OutOfOrderWindow),
		MaxAge:     time.Duration(k.cache.MaxAge),
		Retention:  time.Duration(k.fetch.Retention),
		Prefetch: cache.Budget{
			Requests: float64(k.cache.PrefetchRequests), Bytes: int64(k.cache.PrefetchBytes), Concurrency: k.cache.PrefetchConcurrency,
		},
		Logger:     logger.With("component", "cache"),
		Registerer: reg,
	})
	st.Follower.clears(st.Cache.Clear)
	unwatch := o.Memory.Watch("labels", st.Cache.LabelBytes)
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

// openSource opens what a store reads from. Nothing is asked of a server yet. Errors begin with the
// setting that is wrong.
func openSource(k StoreKey, o Options, reg prometheus.Registerer) (up Fetcher, closed func(), err error) {
	if k.From.Remote == nil {
		d, err := tsdbdir.Open(k.From.Dir, o.Logger.With("component", "data directory"))
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", k.From.Setting, err)
		}
		return d, func() { _ = d.Close() }, nil
	}
	c, err := remoteread.NewClient(k.From.Remote, remoteread.Options{
		Concurrency:   k.fetch.Concurrency,
		KeepExternal:  k.fetch.ExternalLabels.Keep,
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

// Check names all that Open would not open, and changes nothing.
func Check(s config.Settings) error {
	keys, _, _ := storeKeys(s, nil) // config.Settings.Validate says what is wrong with them
	var all []error
	for _, k := range keys {
		_, closed, err := openSource(k, Options{Logger: slog.New(slog.DiscardHandler)}, nil)
		if all = append(all, err); err == nil {
			closed()
		}
	}
	if s.Cache.Path != "" {
		if err := disk.Check(s.Cache.Path); err != nil && !errors.Is(err, syscall.EROFS) {
			all = append(all, fmt.Errorf("cache.path %s: %w", s.Cache.Path, err))
		}
	}
	return errors.Join(all...)
}

// openFiles opens cache.path, if there is one. If one of prev has the same, that
// writes what it still has to write, and goes on in memory alone for the requests
// that it has to answer.
func openFiles(k StoreKey, f *follower, o Options, logger *slog.Logger) (*disk.Store, error) {
	if k.cache.Path == "" {
		return nil, nil
	}
	identity, err := k.From.Identity()
	if err != nil {
		return nil, err
	}
	labelled, certain := f.identity()
	if !certain {
		logger.Warn("the upstream does not say yet which external labels it adds, so what is cached stays in memory until the next start")
		return nil, nil
	}
	identity += cache.DefaultTile.String() + labelled
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
