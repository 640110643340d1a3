package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	commonconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	promconfig "github.com/prometheus/prometheus/config"
	"golang.org/x/crypto/scrypt"

	"github.com/promwarp/promwarp/remoteread/stores"
	"github.com/promwarp/promwarp/remoteread/urltext"
)

// ReadPath is where a Prometheus serves remote read, below its base URL.
const ReadPath = "/api/v1/read"

// Source is where samples come from: a remote-read server, a store of Thanos, or a directory.
type Source struct {
	// Store is the store of Thanos, or nil.
	Store *stores.Config
	// Remote is the remote-read server, or nil.
	Remote *promconfig.RemoteReadConfig
	// Base is the server's HTTP API without /api/v1, for labels and metadata;
	// nil when it is not known.
	Base *url.URL
	// Dir is a local Prometheus data directory.
	Dir string
	// Setting names it in errors: tsdb.path, upstream.url, or remote_read: entry 1.
	Setting string
	// Entry is the index of its entry in remote_read, which those of replicas have in common.
	Entry int
}

// Sources works out where samples come from: one source, or several servers in the order of the
// entries of remote_read.
func (s *Settings) Sources() ([]Source, error) {
	remote := s.Upstream.URL != "" || len(s.RemoteRead) > 0
	switch {
	case len(s.Stores) > 0:
		return s.storeSources()
	case remote && s.TSDB.Path != "":
		return nil, errors.New("both an upstream and tsdb.path are given: promwarp reads from one of them; keep either upstream.url (or remote_read) or tsdb.path")
	case !remote && s.TSDB.Path == "":
		return nil, errors.New("nothing to read from: give --upstream.url=http://prometheus:9090, --tsdb.path=DIRECTORY, or a --config.file with remote_read or stores")
	case len(s.RemoteRead) > 1 && s.Upstream.URL != "":
		return nil, fmt.Errorf("remote_read has %d entries, of which upstream.url cannot be the HTTP API: give each entry whose url does not end in %s an api_url instead", len(s.RemoteRead), ReadPath)
	case s.TSDB.Path != "":
		return []Source{{Dir: s.TSDB.Path, Setting: "tsdb.path"}}, nil
	}

	var base *url.URL
	if s.Upstream.URL != "" {
		var err error
		if base, err = parseBase("upstream.url", s.Upstream.URL); err != nil {
			return nil, err
		}
	}
	if len(s.RemoteRead) == 0 {
		c := DefaultRemoteRead()
		c.URL = &commonconfig.URL{URL: base.JoinPath(ReadPath)}
		return []Source{{Remote: &c, Base: base, Setting: "upstream.url"}}, nil
	}
	var all []Source
	names := map[string]bool{}
	for i, r := range s.RemoteRead {
		if r == nil || r.URL == nil || r.URL.URL == nil {
			return nil, fmt.Errorf("remote_read: entry %d has no url", i+1)
		}
		sources, err := r.sources(base)
		if err != nil {
			return nil, fmt.Errorf("remote_read: entry %d: %w", i+1, err)
		}
		for _, src := range sources {
			src.Setting, src.Entry = fmt.Sprintf("remote_read: entry %d", i+1), i
			if names[src.Name()] {
				return nil, fmt.Errorf("remote_read: two entries are called %s: give each a name of its own", src.Name())
			}
			names[src.Name()] = true
			all = append(all, src)
		}
	}
	return all, nil
}

// sources are the server of an entry, or its replicas. The base is that of upstream.url, or nil.
func (r *remoteReadSettings) sources(base *url.URL) (all []Source, err error) {
	if r.Replicas != nil {
		if base != nil || r.APIURL != "" {
			return nil, errors.New("replicas have no api_url or upstream.url: their urls end in " + ReadPath)
		}
		for _, u := range r.Replicas.URLs {
			one := r.RemoteReadConfig
			one.URL, one.Name = u, "" // the name is that of all together
			all = append(all, Source{Remote: &one, Base: baseOf(u.URL)})
		}
		return all, nil
	}
	src := Source{Remote: &r.RemoteReadConfig, Base: base}
	switch {
	case r.APIURL != "":
		src.Base, err = parseBase("api_url", r.APIURL)
	case base == nil:
		src.Base = baseOf(r.URL.URL)
	}
	return []Source{src}, err
}

// parseBase reads the base URL of a server that the setting of that name has.
func parseBase(setting, text string) (*url.URL, error) {
	u, err := urltext.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, urltext.Err(err))
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("%s %q: write an http or https URL such as http://prometheus:9090", setting, urltext.Setting(text))
	}
	if base := baseOf(u); base != nil {
		return base, nil
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawQuery, u.Fragment = "", ""
	return u, nil
}

// baseOf is the base URL of a server from its remote-read URL, or nil when the
// URL is not where a Prometheus serves remote read.
func baseOf(read *url.URL) *url.URL {
	path, ok := strings.CutSuffix(strings.TrimRight(read.Path, "/"), ReadPath)
	if !ok {
		return nil
	}
	u := *read
	u.Path, u.RawPath, u.RawQuery, u.Fragment = path, "", "", ""
	return &u
}

// String names the source in messages, without credentials.
func (s Source) String() string {
	switch {
	case s.Store != nil:
		return s.Store.Address
	case s.Remote != nil:
		return urltext.Of(s.Remote.URL.URL)
	}
	return s.Dir
}

// Name names the source among others: by its configured name, if it has one.
func (s Source) Name() string {
	switch {
	case s.Store != nil:
		return s.Store.String()
	case s.Remote != nil && s.Remote.Name != "":
		return s.Remote.Name
	}
	return s.String()
}

// Identity names what samples of the source depend on: where they are read from
// and as whom, but not how. Samples cached on disk are of one identity. Tokens
// may be all that tells one tenant from another, so they are part of it; it can
// not be guessed back.
func (s Source) Identity() (string, error) {
	switch {
	case s.Store != nil:
		return identity([]any{"thanos.Store", s.Store.Address, s.Store.Headers, s.Store.MaxResolution})
	case s.Remote == nil:
		return filepath.Abs(s.Dir)
	}
	c := &s.Remote.HTTPClientConfig
	parts := []any{s.Remote.URL.String(), s.Remote.Headers, s.Remote.RequiredMatchers, string(c.BearerToken), c.BearerTokenFile}
	if a := c.BasicAuth; a != nil {
		parts = append(parts, "basic", a.Username, a.UsernameFile, a.UsernameRef)
	}
	if a := c.Authorization; a != nil {
		parts = append(parts, "authorization", a.Type, string(a.Credentials), a.CredentialsFile, a.CredentialsRef)
	}
	if o := c.OAuth2; o != nil {
		parts = append(parts, "oauth2", o.ClientID, o.Scopes, o.EndpointParams)
	}
	if c.HTTPHeaders != nil {
		for _, name := range slices.Sorted(maps.Keys(c.HTTPHeaders.Headers)) {
			h := c.HTTPHeaders.Headers[name]
			header := []any{name, h.Values, h.Files}
			for _, secret := range h.Secrets {
				header = append(header, string(secret))
			}
			parts = append(parts, header)
		}
	}
	return identity(parts)
}

// identity is a text that parts cannot be guessed from.
func identity(parts []any) (string, error) {
	text, err := json.Marshal(parts)
	if err != nil {
		return "", err
	}
	hash, err := scrypt.Key(text, []byte("promwarp cache.path"), 1<<14, 8, 1, 32)
	return fmt.Sprintf("%x", hash), err
}

// remoteReadSettings is an entry of remote_read: one of Prometheus's, and what
// promwarp has besides.
type remoteReadSettings struct {
	promconfig.RemoteReadConfig
	RemoteReadExtras
}

// DefaultRemoteRead is an entry of which nothing is given, as in Prometheus but for the size of a
// frame, which upstream.max_frame_bytes bounds unless chunked_read_limit is given.
func DefaultRemoteRead() promconfig.RemoteReadConfig {
	c := promconfig.DefaultRemoteReadConfig
	c.ChunkedReadLimit = 0
	return c
}

// ReadFrom has s read from one server.
func (s *Settings) ReadFrom(r promconfig.RemoteReadConfig) {
	s.RemoteRead = []*remoteReadSettings{{RemoteReadConfig: r}}
}

// RemoteReadExtras are the keys of an entry that Prometheus does not have. Those
// that are also keys for all upstreams say otherwise for this one.
type RemoteReadExtras struct {
	commonExtras `yaml:",inline"`
	// APIURL is the base of the upstream's HTTP API, without /api/v1, where the
	// entry's URL does not tell.
	APIURL         string          `yaml:"api_url"`
	ExternalLabels *ExternalLabels `yaml:"external_labels"`
	ReplicaLabels  *string         `yaml:"replica_labels"`
	Replicas       *Replicas       `yaml:"replicas"`
}

// commonExtras are also keys of entries of stores.
type commonExtras struct {
	// OnFailure says what becomes of a query when the upstream fails.
	OnFailure        onFailure       `yaml:"on_failure"`
	Retention        *model.Duration `yaml:"retention"`
	Fresh            *model.Duration `yaml:"fresh"`
	Recheck          *model.Duration `yaml:"recheck"`
	OutOfOrderWindow *model.Duration `yaml:"out_of_order_window"`
	MaxAge           *model.Duration `yaml:"max_age"`
}

// Replicas are servers that scrape the same, of which an entry makes one upstream.
type Replicas struct {
	URLs []*commonconfig.URL `yaml:"urls"`
	// Label is the external label by which they differ.
	Label string `yaml:"label"`
	// Merge is how one answer is made of several: failover, which empty is, too, or Penalty.
	Merge string `yaml:"merge"`
}

// Penalty is the merge by Thanos's algorithm.
const Penalty = "penalty"

// check says what is wrong with the replicas of an entry with a url, which may be nil.
func (r *Replicas) check(u *commonconfig.URL) error {
	switch {
	case u != nil:
		return errors.New("an entry has both url and replicas: move its url into replicas.urls")
	case len(r.URLs) < 2:
		return errors.New("replicas.urls has fewer than two URLs: of one server give its url instead")
	case slices.ContainsFunc(r.URLs, func(u *commonconfig.URL) bool { return u == nil || u.URL == nil || u.Host == "" }):
		return errors.New("replicas.urls has an empty URL")
	case !slices.Contains([]string{"", "failover", Penalty}, r.Merge):
		return fmt.Errorf("%q is neither failover, which is the default, nor %s, which merges replicas as Thanos does", r.Merge, Penalty)
	}
	return nil
}

// onFailure is what becomes of a query when an upstream fails.
type onFailure string

const (
	failQuery onFailure = "error"
	WarnQuery onFailure = "warn" // it is answered without the upstream, with a warning
)

// UnmarshalYAML implements yaml.Unmarshaler.
func (f *onFailure) UnmarshalYAML(unmarshal func(any) error) error {
	var text string
	if err := unmarshal(&text); err != nil {
		return err
	}
	if *f = onFailure(text); *f != failQuery && *f != WarnQuery {
		return fmt.Errorf("%q is neither %s, which is the default, nor %s, which answers without the upstream", text, failQuery, WarnQuery)
	}
	return nil
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (r *remoteReadSettings) UnmarshalYAML(unmarshal func(any) error) error {
	type remoteRead promconfig.RemoteReadConfig // without its own UnmarshalYAML
	type entry struct {
		remoteRead       `yaml:",inline"`
		RemoteReadExtras `yaml:",inline"`
	}
	all := entry{remoteRead: remoteRead(DefaultRemoteRead())}
	if err := unmarshal(&all); err != nil {
		return urltext.Err(err) // it may quote a URL with its password
	}
	if all.Replicas != nil {
		if err := all.Replicas.check(all.URL); err != nil {
			return err
		}
		all.URL = all.Replicas.URLs[0]
	}
	r.RemoteReadExtras = all.RemoteReadExtras
	// Prometheus checks what it reads while it reads it.
	return r.RemoteReadConfig.UnmarshalYAML(func(read any) error {
		theirs := reflect.ValueOf(read).Elem()
		theirs.Set(reflect.ValueOf(all.remoteRead).Convert(theirs.Type()))
		return nil
	})
}
