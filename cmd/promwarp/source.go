package main

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"

	commonconfig "github.com/prometheus/common/config"
	promconfig "github.com/prometheus/prometheus/config"
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

// source works out where samples come from.
func (s *settings) source() (source, error) {
	remote := s.Upstream.URL != "" || len(s.RemoteRead) > 0
	switch {
	case remote && s.TSDB.Path != "":
		return source{}, errors.New("both an upstream and tsdb.path are given: promwarp reads from one of them; keep either upstream.url (or remote_read) or tsdb.path")
	case !remote && s.TSDB.Path == "":
		return source{}, errors.New("nothing to read from: give --upstream.url=http://prometheus:9090, --tsdb.path=DIRECTORY, or a --config.file with remote_read")
	case len(s.RemoteRead) > 1:
		return source{}, fmt.Errorf("remote_read has %d entries: promwarp reads from exactly one upstream at present; remove the others", len(s.RemoteRead))
	case s.TSDB.Path != "":
		return source{dir: s.TSDB.Path}, nil
	}

	var src source
	if s.Upstream.URL != "" {
		u, err := parseBase(s.Upstream.URL)
		if err != nil {
			return source{}, err
		}
		src.base = u
	}
	if len(s.RemoteRead) == 1 {
		src.remote = s.RemoteRead[0]
		if src.remote == nil || src.remote.URL == nil || src.remote.URL.URL == nil {
			return source{}, errors.New("remote_read: the entry has no url")
		}
		if src.base == nil {
			src.base = baseOf(src.remote.URL.URL)
		}
		return src, nil
	}
	c := promconfig.DefaultRemoteReadConfig
	c.URL = &commonconfig.URL{URL: src.base.JoinPath(readPath)}
	src.remote = &c
	return src, nil
}

// parseBase reads upstream.url.
func parseBase(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("upstream.url: %w", err)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("upstream.url %q: write an http or https URL such as http://prometheus:9090", u.Redacted())
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
		return s.remote.URL.Redacted()
	}
	return s.dir
}
