// Package backend is what queries are answered from and with: stores, which are sources behind
// caches, the upstreams' settings that are followed, the engine, the GPUs. Settings go in; what
// did not change is taken over from a backend before. Start reading at Open.
package backend

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	commonconfig "github.com/prometheus/common/config"
	promconfig "github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/util/features"

	"github.com/promwarp/promwarp/api/forward"
	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/cache/fanout"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/gpuexec/device"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/refcount"
	"github.com/promwarp/promwarp/planner/placement"
	"github.com/promwarp/promwarp/remoteread/urltext"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/replicas"
)

// Backend is all that is read from.
type Backend struct {
	Stores    []*Store
	upstreams []upstreamOf
	// All is the cache of one store, or what joins those of several.
	All fanout.Cache
}

// upstreamOf is a store, or several that are replicas.
type upstreamOf struct {
	name     string
	stores   []*Store
	optional bool
	replicas *config.Replicas // nil for one store
}

// storeKeys are the keys of the stores that s asks for. Several share the cache's limits equally, and
// its directory. A given upstream takes the place of the sources.
func storeKeys(s config.Settings, up cache.Upstream) (keys []StoreKey, err error) {
	common := StoreKey{fetch: s.Upstream, cache: s.Cache, tile: cache.DefaultTile}
	common.fetch.URL, common.cache.ResultsBytes = "", 0 // another source or engine takes no other store
	if up != nil {
		return []StoreKey{common}, nil
	}
	sources, err := s.Sources()
	if err != nil {
		return nil, err
	}
	for _, from := range sources {
		k := common
		k.From = from
		if n := config.ByteSize(len(sources)); n > 1 {
			k.name = from.Name()
			k.cache.DecodedBytes = k.cache.DecodedBytes / n
			k.cache.HostBytes /= n
			k.cache.DiskBytes /= n
			if k.cache.Path != "" {
				id, err := from.Identity()
				if err != nil {
					return nil, err
				}
				sum := sha256.Sum256([]byte(id))
				k.cache.Path = filepath.Join(k.cache.Path, fmt.Sprintf("upstream-%x", sum[:8]))
			}
		}
		extra := s.Extras(from.Entry)
		override(&k.fetch.Retention, extra.Retention)
		override(&k.fetch.ExternalLabels, extra.ExternalLabels)
		override(&k.fetch.ReplicaLabels, extra.ReplicaLabels)
		if extra.Replicas != nil {
			k.fetch.ReplicaLabels += "," + extra.Replicas.Label
		}
		override(&k.cache.Fresh, extra.Fresh)
		override(&k.cache.Recheck, extra.Recheck)
		override(&k.cache.OutOfOrderWindow, extra.OutOfOrderWindow)
		override(&k.cache.MaxAge, extra.MaxAge)
		if extra.Replicas != nil && extra.Replicas.Merge == config.Penalty {
			k.tile, k.cache.Recheck = replicas.ChunkRange, 0 // nothing that is kept ends within a chunk
		}
		keys = append(keys, k)
	}
	return keys, nil
}

func override[T any](setting, by *T) {
	if by != nil {
		*setting = *by
	}
}

// Open opens what s asks for, or o.upstream. It takes over from o.prev the stores
// that did not change.
func Open(s config.Settings, o Options) (*Backend, error) {
	keys, err := storeKeys(s, o.Upstream)
	if err != nil {
		return nil, config.Usage(err)
	}
	b := &Backend{}
	for _, k := range keys {
		i := slices.IndexFunc(o.Prev, func(p *Store) bool {
			was := p.Key
			was.From.Setting, was.From.Entry = k.From.Setting, k.From.Entry // wherever their sources are listed
			return reflect.DeepEqual(was, k)
		})
		if i >= 0 && o.Prev[i].Hold() {
			b.Stores = append(b.Stores, o.Prev[i])
			continue
		}
		st, err := openStore(k, o)
		if err != nil {
			b.Release()
			return nil, err
		}
		b.Stores = append(b.Stores, st)
	}
	if s.Cache.Path != "" {
		dropUnused(s.Cache.Path, keys, o.Logger)
	}
	b.join(s, keys, o.Reg)
	return b, nil
}

// join finds which stores are replicas, and makes one source of all. Keys are those of s, of which a
// store may have been opened for another place.
func (b *Backend) join(s config.Settings, keys []StoreKey, reg prometheus.Registerer) {
	for i, st := range b.Stores {
		entry := keys[i].From.Entry
		extra := s.Extras(entry)
		if i > 0 && extra.Replicas != nil && entry == keys[i-1].From.Entry {
			u := &b.upstreams[len(b.upstreams)-1]
			u.stores = append(u.stores, st)
			continue
		}
		u := upstreamOf{name: st.name, stores: []*Store{st}, optional: extra.OnFailure == config.WarnQuery, replicas: extra.Replicas}
		if u.replicas != nil {
			u.name = cmp.Or(s.RemoteRead[entry].Name, u.name)
		}
		b.upstreams = append(b.upstreams, u)
	}
	all, joined := make([]fanout.Upstream, len(b.upstreams)), len(b.upstreams) > 1
	for i, u := range b.upstreams {
		b.All = u.source(reg)
		joined = joined || u.optional
		all[i] = fanout.Upstream{Name: u.name, Cache: b.All, Optional: u.optional}
		if store := u.stores[0].Key.From.Store; store != nil && store.MaxResolution > 0 {
			all[i].Cache = &fanout.Downsampled{Cache: u.stores[0].Cache, Resolution: store.MaxResolution}
			joined = true
		}
	}
	if joined {
		b.All = fanout.New(reg, all...)
	}
}

// source is the upstream as one source.
func (u *upstreamOf) source(reg prometheus.Registerer) fanout.Cache {
	if u.replicas == nil {
		return u.stores[0].Cache
	}
	all := make([]fanout.Upstream, len(u.stores))
	for i, st := range u.stores {
		all[i] = fanout.Upstream{Name: st.name, Cache: st.Cache, Away: st.Follower.away}
	}
	reg = prometheus.WrapRegistererWith(prometheus.Labels{"upstream": u.name}, reg)
	return fanout.NewReplicas(reg, u.replicas.Merge == config.Penalty, all...)
}

// Release lets go of the stores.
func (b *Backend) Release() {
	for _, st := range b.Stores {
		st.Release()
	}
}

// String names what is read from, without credentials.
func (b *Backend) String() string {
	names := make([]string, len(b.Stores))
	for i, st := range b.Stores {
		names[i] = st.name
	}
	return strings.Join(names, ", ")
}

// Remotes are the servers among what is read from.
func (b *Backend) Remotes() (out []*forward.Remote) {
	for _, u := range b.upstreams {
		for _, st := range u.stores {
			if st.remote != nil {
				r := *st.remote
				if r.Optional = u.optional; u.replicas != nil {
					r.Replicas = u.name
				}
				out = append(out, &r)
			}
		}
	}
	return out
}

// Contents are what the caches have, of each at most that many selectors; see cache.Cache.Contents.
func (b *Backend) Contents(selectors int, onDevice func(*selection.Selection) float64) (all []cache.Contents) {
	for _, st := range b.Stores {
		c := st.Cache.Contents(selectors, onDevice)
		if len(b.Stores) > 1 {
			c.Name = st.name
		}
		all = append(all, c)
	}
	return all
}

// ShownConfig is what /api/v1/status/config shows: the sources, in the form of
// Prometheus's configuration, without secrets.
func (b *Backend) ShownConfig() promconfig.Config {
	c := promconfig.DefaultConfig
	for _, st := range b.Stores {
		remote := st.Key.From.Remote
		if remote == nil {
			continue
		}
		shown := *remote
		shown.URL = &commonconfig.URL{URL: urltext.Bare(remote.URL.URL)}
		shown.HTTPClientConfig = shownHTTP(shown.HTTPClientConfig)
		if len(shown.Headers) > 0 {
			shown.Headers = map[string]string{}
			for k := range remote.Headers {
				shown.Headers[k] = "<secret>"
			}
		}
		c.RemoteReadConfigs = append(c.RemoteReadConfigs, &shown)
	}
	return c
}

// shownHTTP is an HTTP client's configuration without what marshalling it would show.
func shownHTTP(c commonconfig.HTTPClientConfig) commonconfig.HTTPClientConfig {
	if c.ProxyURL.URL != nil {
		c.ProxyURL = commonconfig.URL{URL: urltext.Bare(c.ProxyURL.URL)}
	}
	if c.OAuth2 != nil {
		o := *c.OAuth2
		o.TokenURL = urltext.Setting(o.TokenURL)
		if o.ProxyURL.URL != nil {
			o.ProxyURL = commonconfig.URL{URL: urltext.Bare(o.ProxyURL.URL)}
		}
		if len(o.EndpointParams) > 0 {
			params := map[string]string{}
			for k := range o.EndpointParams {
				params[k] = "<secret>"
			}
			o.EndpointParams = params
		}
		c.OAuth2 = &o
	}
	return c
}

// isUpstreamDirectory matches the names of directories in cache.path that belong to one of several
// upstreams.
var isUpstreamDirectory = regexp.MustCompile(`^upstream-[0-9a-f]{16}$`)

// dropUnused removes from cache.path what upstreams left there that are read from
// no more. What is still open stays until the next time.
func dropUnused(path string, keys []StoreKey, logger *slog.Logger) {
	used := func(dir string) bool {
		return slices.ContainsFunc(keys, func(k StoreKey) bool { return k.cache.Path == dir })
	}
	unused := []string{path}
	entries, _ := os.ReadDir(path) // openStore has said what is wrong with it
	for _, e := range entries {
		if e.IsDir() && isUpstreamDirectory.MatchString(e.Name()) {
			unused = append(unused, filepath.Join(path, e.Name()))
		}
	}
	for _, dir := range unused {
		if used(dir) {
			continue
		}
		if err := disk.Clear(dir); err != nil && !errors.Is(err, disk.ErrLocked) {
			logger.Warn("could not remove cached samples of an upstream that is no more read from", "directory", dir, "err", err)
		}
	}
}

// Evaluator is an engine with its limits.
type Evaluator struct {
	*refcount.Count
	*engine.Engine
	From     config.EngineSettings
	Reg      *prometheus.Registry
	Features features.Collector
}

// NewEvaluator returns an engine made from limits that may use gpus, takes leases of pool, and notes
// in active which queries run. Each of them may be nil, and stays the caller's.
func NewEvaluator(limits config.EngineSettings, gpus *placement.Placer, pool *memory.Pool, active *ActiveFile, logger *slog.Logger) *Evaluator {
	reg := prometheus.NewRegistry()
	can := features.NewRegistry()
	opts := promql.EngineOpts{
		Logger:                   logger.With("component", "query engine"),
		Reg:                      reg,
		MaxSamples:               limits.MaxSamples,
		Timeout:                  time.Duration(limits.Timeout),
		ActiveQueryTracker:       tracker{limits.MaxConcurrency, active},
		LookbackDelta:            limits.Lookback,
		NoStepSubqueryIntervalFn: func(int64) int64 { return limits.Interval.Milliseconds() },
		Parser:                   limits.Parser(),
		FeatureRegistry:          can,
	}
	limits.Features.Engine(&opts)
	e := engine.New(engine.Options{
		Limits: limits.Limits(), GPUs: gpus, DecodedBytes: limits.DecodedBytes, ResultsBytes: limits.ResultsBytes, MaxMemory: int64(limits.MaxMemory), Memory: pool, Exact: limits.Exact, Prometheus: opts,
	})
	unwatch := pool.Watch("decoded", e.Columns().SizeBytes)
	unwatchResults := pool.Watch("results", e.Results().Bytes)
	endReclaim := pool.OnShortage(reclaimDecoded, e.Columns().Shrink)
	return &Evaluator{
		Engine:   e,
		From:     limits,
		Reg:      reg,
		Features: can,
		Count: refcount.New(func() {
			unwatch()
			unwatchResults()
			endReclaim()
			if err := e.Close(); err != nil {
				logger.Warn("closing the engine failed", "err", err)
			}
		}),
	}
}

// ActiveFile has the queries that run in a file that survives a crash, which is Prometheus's
// queries.active. It is the process's until that ends: queries may run to the last. A nil
// ActiveFile has none.
type ActiveFile struct {
	file    *promql.ActiveQueryTracker
	running atomic.Int64
}

// activeSlots is how many queries a file has room for; of more at once, the others are left out.
const activeSlots = 256

// OpenActiveFile makes the file in a directory. The log says which queries had not ended when the
// process ended that had it before.
func OpenActiveFile(dir string, logger *slog.Logger) (*ActiveFile, error) {
	file, err := promql.NewActiveQueryTracker(dir, activeSlots, logger)
	if err != nil {
		return nil, err
	}
	return &ActiveFile{file: file}, nil
}

// notListed stands for the slot of a query that is not in the file.
const notListed = -1

// tracker is a promql.QueryTracker that says how many queries run at a time, which the queue at the
// door sees to, and has them in a file if there is one.
type tracker struct {
	maxConcurrent int
	active        *ActiveFile
}

// GetMaxConcurrent implements promql.QueryTracker.
func (t tracker) GetMaxConcurrent() int { return t.maxConcurrent }

// Insert implements promql.QueryTracker. As from Prometheus's tracker, the error is the context's.
// It never waits.
func (t tracker) Insert(ctx context.Context, query string) (int, error) {
	if err := ctx.Err(); err != nil || t.active == nil {
		return notListed, err
	}
	if t.active.running.Add(1) > activeSlots {
		t.active.running.Add(-1)
		return notListed, nil
	}
	return t.active.file.Insert(context.Background(), query)
}

// Delete implements promql.QueryTracker.
func (t tracker) Delete(slot int) {
	if slot == notListed {
		return
	}
	t.active.file.Delete(slot)
	t.active.running.Add(-1)
}

// Close implements promql.QueryTracker.
func (tracker) Close() error { return nil }

// OpenGPUs opens the GPUs that s asks for; nil where it asks for none. The process may have so much memory;
// 0 is no limit.
func OpenGPUs(s config.GPUSettings, memory config.ByteSize, logger *slog.Logger, reg prometheus.Registerer) (*placement.Placer, error) {
	if s.Mode == config.GPUOff {
		return nil, nil
	}
	devices, err := s.Ordinals()
	if err != nil {
		return nil, config.Usage(err)
	}
	gpus, err := placement.Open(placement.Options{
		Options: device.Options{
			Require: s.Mode == config.GPURequire, Devices: devices, MemoryFraction: float64(s.MemoryFraction), MemoryBytes: int64(s.MemoryBytes),
			HostBytes: int64(memory),
			Library:   s.Library, Logger: logger.With("component", "gpu"), Registerer: reg,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("no GPU, which --gpu.mode=require asks for: %w", err)
	}
	return gpus, nil
}

// Check names all that Open would not open, and changes nothing.
func Check(s config.Settings) error {
	keys, _ := storeKeys(s, nil) // config.Settings.Validate says what is wrong with them
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
