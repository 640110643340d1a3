// Package backend is what queries are answered from and with: stores, which are sources behind
// caches, the upstreams' settings that are followed, the engine, the GPUs. Settings go in; what
// did not change is taken over from a backend before. Start reading at Open.
package backend

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	commonconfig "github.com/prometheus/common/config"
	promconfig "github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/storage"

	"github.com/promwarp/promwarp/api"
	"github.com/promwarp/promwarp/api/forward"
	"github.com/promwarp/promwarp/cache/contents"
	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/cache/fanout"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/remoteread/urltext"
	"github.com/promwarp/promwarp/selection"
)

// Backend is all that is read from.
type Backend struct {
	Stores   []*Store
	optional []bool // of each store
	All      reader
}

// reader is the cache of one store, or what joins those of several.
type reader interface {
	storage.SampleAndChunkQueryable
	api.Dropper
}

// storeKeys are the keys of the stores that s asks for, and which of them are
// optional. Several share the cache's limits equally, and its directory. A given
// upstream takes the place of the sources.
func storeKeys(s config.Settings, up Fetcher) (keys []StoreKey, optional []bool, err error) {
	common := StoreKey{fetch: s.Upstream, cache: s.Cache}
	common.fetch.URL, common.cache.ResultsBytes = "", 0 // another source or engine takes no other store
	if up != nil {
		return []StoreKey{common}, []bool{false}, nil
	}
	sources, err := s.Sources()
	if err != nil {
		return nil, nil, err
	}
	for i, from := range sources {
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
					return nil, nil, err
				}
				k.cache.Path = filepath.Join(k.cache.Path, fmt.Sprintf("upstream-%x", sha256.Sum256([]byte(id)))[:upstreamDirectory])
			}
		}
		extra := config.RemoteReadExtras{}
		if len(s.RemoteRead) > 0 {
			extra = s.RemoteRead[i].RemoteReadExtras
		}
		override(&k.fetch.Retention, extra.Retention)
		override(&k.fetch.ExternalLabels, extra.ExternalLabels)
		override(&k.cache.Fresh, extra.Fresh)
		override(&k.cache.Recheck, extra.Recheck)
		override(&k.cache.OutOfOrderWindow, extra.OutOfOrderWindow)
		override(&k.cache.MaxAge, extra.MaxAge)
		keys = append(keys, k)
		optional = append(optional, extra.OnFailure == config.WarnQuery)
	}
	return keys, optional, nil
}

func override[T any](setting, by *T) {
	if by != nil {
		*setting = *by
	}
}

// Open opens what s asks for, or o.upstream. It takes over from o.prev the stores
// that did not change.
func Open(s config.Settings, o Options) (*Backend, error) {
	keys, optional, err := storeKeys(s, o.Upstream)
	if err != nil {
		return nil, config.Usage(err)
	}
	b := &Backend{optional: optional}
	for _, k := range keys {
		i := slices.IndexFunc(o.Prev, func(p *Store) bool { return p.Key.same(k) })
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
	if len(b.Stores) == 1 && !optional[0] {
		b.All = b.Stores[0].Cache
		return b, nil
	}
	ups := make([]fanout.Upstream, len(b.Stores))
	for i, st := range b.Stores {
		ups[i] = fanout.Upstream{Name: st.name, Cache: st.Cache, Optional: optional[i]}
	}
	b.All = fanout.New(o.Reg, ups...)
	return b, nil
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
	for i, st := range b.Stores {
		if st.remote != nil {
			r := *st.remote
			r.Optional = b.optional[i]
			out = append(out, &r)
		}
	}
	return out
}

// Contents are what the caches have, of each at most so many selectors; see cache.Cache.Contents.
func (b *Backend) Contents(selectors int, onDevice func(*selection.Selection) float64) (all []contents.Contents) {
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

// upstreamDirectory is the length of the names of directories in cache.path that
// belong to one of several upstreams.
const upstreamDirectory = len("upstream-") + 16

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
