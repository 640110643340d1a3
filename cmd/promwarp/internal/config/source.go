package config

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

// ReadPath is where a Prometheus serves remote read, below its base URL.
const ReadPath = "/api/v1/read"

// Source is where samples come from: a remote-read server or a directory.
type Source struct {
	// Remote is the remote-read server, nil when dir is set.
	Remote *promconfig.RemoteReadConfig
	// Base is the server's HTTP API without /api/v1, for labels and metadata;
	// nil when it is not known.
	Base *url.URL
	// Dir is a local Prometheus data directory.
	Dir string
	// Setting names it in errors: tsdb.path, upstream.url, or remote_read: entry 1.
	Setting string
}

// Sources works out where samples come from: one source, or several servers. The
// entries of remote_read and what they make are in the same order.
func (s *Settings) Sources() ([]Source, error) {
	remote := s.Upstream.URL != "" || len(s.RemoteRead) > 0
	switch {
	case remote && s.TSDB.Path != "":
		return nil, errors.New("both an upstream and tsdb.path are given: promwarp reads from one of them; keep either upstream.url (or remote_read) or tsdb.path")
	case !remote && s.TSDB.Path == "":
		return nil, errors.New("nothing to read from: give --upstream.url=http://prometheus:9090, --tsdb.path=DIRECTORY, or a --config.file with remote_read")
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
		src := Source{Remote: &r.RemoteReadConfig, Base: base, Setting: fmt.Sprintf("remote_read: entry %d", i+1)}
		switch {
		case r.APIURL != "":
			var err error
			if src.Base, err = parseBase("api_url", r.APIURL); err != nil {
				return nil, fmt.Errorf("remote_read: entry %d: %w", i+1, err)
			}
		case base == nil:
			src.Base = baseOf(r.URL.URL)
		}
		if names[src.Name()] {
			return nil, fmt.Errorf("remote_read: two entries are called %s: give each a name of its own", src.Name())
		}
		names[src.Name()] = true
		all = append(all, src)
	}
	return all, nil
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

// Same reports whether both read from the same place in the same way, wherever they are listed.
func (s Source) Same(t Source) bool {
	s.Setting = t.Setting
	return reflect.DeepEqual(s, t)
}

// String names the source in messages, without credentials.
func (s Source) String() string {
	if s.Remote != nil {
		return urltext.Of(s.Remote.URL.URL)
	}
	return s.Dir
}

// Name names the source among others: by its configured name, if it has one.
func (s Source) Name() string {
	if s.Remote != nil && s.Remote.Name != "" {
		return s.Remote.Name
	}
	return s.String()
}
