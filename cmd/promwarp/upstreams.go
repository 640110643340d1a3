package main

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
	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/cache/fanout"
	"github.com/promwarp/promwarp/remoteread/urltext"
)

// backend is all that is read from.
type backend struct {
	stores   []*store
	optional []bool // of each store
	all      reader
}

// reader is the cache of one store, or what joins those of several.
type reader interface {
	storage.SampleAndChunkQueryable
	api.Dropper
}

// storeKeys are the keys of the stores that s asks for, and which of them are
// optional. Several share the cache's limits equally, and its directory. A given
// upstream takes the place of the sources.
func storeKeys(s settings, up fetcher) (keys []storeKey, optional []bool, err error) {
	common := storeKey{fetch: s.Upstream, cache: s.Cache}
	common.fetch.URL, common.cache.ResultsBytes = "", 0 // another source or engine takes no other store
	if up != nil {
		return []storeKey{common}, []bool{false}, nil
	}
	sources, err := s.sources()
	if err != nil {
		return nil, nil, err
	}
	for i, from := range sources {
		k := common
		k.from = from
		if n := byteSize(len(sources)); n > 1 {
			k.name = from.name()
			k.cache.DecodedBytes = k.cache.decoded() / n
			k.cache.HostBytes /= n
			k.cache.DiskBytes /= n
			if k.cache.Path != "" {
				id, err := from.identity()
				if err != nil {
					return nil, nil, err
				}
				k.cache.Path = filepath.Join(k.cache.Path, fmt.Sprintf("upstream-%x", sha256.Sum256([]byte(id)))[:upstreamDirectory])
			}
		}
		extra := remoteReadExtras{}
		if len(s.RemoteRead) > 0 {
			extra = s.RemoteRead[i].remoteReadExtras
		}
		override(&k.fetch.Retention, extra.Retention)
		override(&k.fetch.ExternalLabels, extra.ExternalLabels)
		override(&k.cache.Fresh, extra.Fresh)
		override(&k.cache.Recheck, extra.Recheck)
		override(&k.cache.OutOfOrderWindow, extra.OutOfOrderWindow)
		override(&k.cache.MaxAge, extra.MaxAge)
		keys = append(keys, k)
		optional = append(optional, extra.OnFailure == warnQuery)
	}
	return keys, optional, nil
}

func override[T any](setting, by *T) {
	if by != nil {
		*setting = *by
	}
}

// openBackend opens what s asks for, or o.upstream. It takes over from o.prev the stores
// that did not change.
func openBackend(s settings, o storeOptions) (*backend, error) {
	keys, optional, err := storeKeys(s, o.upstream)
	if err != nil {
		return nil, usageError{err}
	}
	b := &backend{optional: optional}
	for _, k := range keys {
		i := slices.IndexFunc(o.prev, func(p *store) bool { return p.key.same(k) })
		if i >= 0 && o.prev[i].Hold() {
			b.stores = append(b.stores, o.prev[i])
			continue
		}
		st, err := openStore(k, o)
		if err != nil {
			b.Release()
			return nil, err
		}
		b.stores = append(b.stores, st)
	}
	if s.Cache.Path != "" {
		dropUnused(s.Cache.Path, keys, o.logger)
	}
	if len(b.stores) == 1 && !optional[0] {
		b.all = b.stores[0].cache
		return b, nil
	}
	ups := make([]fanout.Upstream, len(b.stores))
	for i, st := range b.stores {
		ups[i] = fanout.Upstream{Name: st.name, Cache: st.cache, Optional: optional[i]}
	}
	b.all = fanout.New(o.reg, ups...)
	return b, nil
}

// Release lets go of the stores.
func (b *backend) Release() {
	for _, st := range b.stores {
		st.Release()
	}
}

// String names what is read from, without credentials.
func (b *backend) String() string {
	names := make([]string, len(b.stores))
	for i, st := range b.stores {
		names[i] = st.name
	}
	return strings.Join(names, ", ")
}

// remotes are the servers among what is read from.
func (b *backend) remotes() (out []*forward.Remote) {
	for i, st := range b.stores {
		if st.remote != nil {
			r := *st.remote
			r.Optional = b.optional[i]
			out = append(out, &r)
		}
	}
	return out
}

// shownConfig is what /api/v1/status/config shows: the sources, in the form of
// Prometheus's configuration, without secrets.
func (b *backend) shownConfig() promconfig.Config {
	c := promconfig.DefaultConfig
	for _, st := range b.stores {
		remote := st.key.from.remote
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
func dropUnused(path string, keys []storeKey, logger *slog.Logger) {
	used := func(dir string) bool {
		return slices.ContainsFunc(keys, func(k storeKey) bool { return k.cache.Path == dir })
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
