package main

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"

	commonconfig "github.com/prometheus/common/config"
	promconfig "github.com/prometheus/prometheus/config"

	"github.com/promwarp/promwarp/remoteread/urltext"
)

// readPath is where a Prometheus serves remote read, below its base URL.
const readPath = "/api/v1/read"

// source is where samples come from: a remote-read server or a directory.
type source struct {
	// remote is the remote-read server, nil when dir is set.
	remote *promconfig.RemoteReadConfig
	// base is the server's HTTP API without /api/v1, for labels and metadata;
	// nil when it is not known.
	base *url.URL
	// dir is a local Prometheus data directory.
	dir string
}

// sources works out where samples come from: one source, or several servers. The
// entries of remote_read and what they make are in the same order.
func (s *settings) sources() ([]source, error) {
	remote := s.Upstream.URL != "" || len(s.RemoteRead) > 0
	switch {
	case remote && s.TSDB.Path != "":
		return nil, errors.New("both an upstream and tsdb.path are given: promwarp reads from one of them; keep either upstream.url (or remote_read) or tsdb.path")
	case !remote && s.TSDB.Path == "":
		return nil, errors.New("nothing to read from: give --upstream.url=http://prometheus:9090, --tsdb.path=DIRECTORY, or a --config.file with remote_read")
	case len(s.RemoteRead) > 1 && s.Upstream.URL != "":
		return nil, fmt.Errorf("remote_read has %d entries, of which upstream.url cannot be the HTTP API: give each entry whose url does not end in %s an api_url instead", len(s.RemoteRead), readPath)
	case s.TSDB.Path != "":
		return []source{{dir: s.TSDB.Path}}, nil
	}

	var base *url.URL
	if s.Upstream.URL != "" {
		var err error
		if base, err = parseBase("upstream.url", s.Upstream.URL); err != nil {
			return nil, err
		}
	}
	if len(s.RemoteRead) == 0 {
		c := promconfig.DefaultRemoteReadConfig
		c.URL = &commonconfig.URL{URL: base.JoinPath(readPath)}
		return []source{{remote: &c, base: base}}, nil
	}
	var all []source
	names := map[string]bool{}
	for i, r := range s.RemoteRead {
		if r == nil || r.URL == nil || r.URL.URL == nil {
			return nil, fmt.Errorf("remote_read: entry %d has no url", i+1)
		}
		src := source{remote: &r.RemoteReadConfig, base: base}
		switch {
		case r.APIURL != "":
			var err error
			if src.base, err = parseBase("api_url", r.APIURL); err != nil {
				return nil, fmt.Errorf("remote_read: entry %d: %w", i+1, err)
			}
		case base == nil:
			src.base = baseOf(r.URL.URL)
		}
		if names[src.name()] {
			return nil, fmt.Errorf("remote_read: two entries are called %s: give each a name of its own", src.name())
		}
		names[src.name()] = true
		all = append(all, src)
	}
	return all, nil
}

// parseBase reads the base URL of a server that the setting of that name has.
func parseBase(setting, text string) (*url.URL, error) {
	u, err := url.Parse(text)
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
	path, ok := strings.CutSuffix(strings.TrimRight(read.Path, "/"), readPath)
	if !ok {
		return nil
	}
	u := *read
	u.Path, u.RawPath, u.RawQuery, u.Fragment = path, "", "", ""
	return &u
}

// same reports whether both read from the same place in the same way.
func (s source) same(t source) bool { return reflect.DeepEqual(s, t) }

// String names the source in messages, without credentials.
func (s source) String() string {
	if s.remote != nil {
		return urltext.Of(s.remote.URL.URL)
	}
	return s.dir
}

// name names the source among others: by its configured name, if it has one.
func (s source) name() string {
	if s.remote != nil && s.remote.Name != "" {
		return s.remote.Name
	}
	return s.String()
}
