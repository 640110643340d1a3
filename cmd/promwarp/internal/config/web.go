package config

import (
	"encoding"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/grafana/regexp"
	"github.com/prometheus/common/model"

	"github.com/promwarp/promwarp/api"
	"github.com/promwarp/promwarp/remoteread/urltext"
)

// webSettings are those of the HTTP server.
type webSettings struct {
	ListenAddress   Addresses `yaml:"listen_address"`
	ConfigFile      string    `yaml:"config_file"`
	EnablePprof     bool      `yaml:"enable_pprof"`
	EnableLifecycle bool      `yaml:"enable_lifecycle"`
	EnableAdminAPI  bool      `yaml:"enable_admin_api"`
	// ReadyNeedsUpstream has /-/ready answer 503 while an upstream is away that queries need.
	ReadyNeedsUpstream bool `yaml:"ready_needs_upstream"`

	ShutdownTimeout model.Duration `yaml:"shutdown_timeout"`
	CORSOrigin      string         `yaml:"cors_origin"`
	// UpstreamURL is the base URL at which browsers reach the upstream's pages; empty
	// is the one that promwarp reaches it at.
	UpstreamURL string `yaml:"upstream_url"`

	// ReadTimeout is the longest that a request takes to arrive, and that a connection
	// stays open without one.
	ReadTimeout model.Duration `yaml:"read_timeout"`
	// WriteTimeout is the longest that a client may read nothing of its answer.
	WriteTimeout model.Duration `yaml:"write_timeout"`
	// MaxConnections is the most connections at once, of all addresses together.
	MaxConnections int `yaml:"max_connections"`
	// MaxHeaderBytes and MaxBodyBytes bound a request.
	MaxHeaderBytes ByteSize `yaml:"max_header_bytes"`
	MaxBodyBytes   ByteSize `yaml:"max_body_bytes"`
}

// HeaderTimeout is the longest that the header of a request takes to arrive.
const HeaderTimeout = 10 * time.Second

func defaultWeb() webSettings {
	return webSettings{
		ListenAddress:   Addresses{"127.0.0.1:9201"},
		ShutdownTimeout: model.Duration(30 * time.Second),
		CORSOrigin:      ".*",
		ReadTimeout:     model.Duration(5 * time.Minute),
		WriteTimeout:    model.Duration(api.DefaultWriteTimeout),
		MaxConnections:  512,
		MaxHeaderBytes:  256 << 10,
		MaxBodyBytes:    api.DefaultMaxBodyBytes,
	}
}

// validate checks what the types cannot say.
func (s *webSettings) validate() error {
	_, origin := s.OriginRegexp()
	_, pages := s.PagesURL()
	return errors.Join(broken(
		rule{s.ShutdownTimeout < 0, "web.shutdown_timeout must not be negative; the default is 30s"},
		rule{len(s.ListenAddress) == 0, "web.listen_address must name at least one address, such as 127.0.0.1:9201"},
		rule{s.ReadTimeout <= 0, "web.read_timeout must be more than 0; the default is 5m"},
		rule{s.WriteTimeout <= 0, "web.write_timeout must be more than 0; the default is 1m"},
		rule{s.MaxConnections < max(1, len(s.ListenAddress)), "web.max_connections must be at least 1 for each of web.listen_address; the default is 512"},
		rule{s.MaxHeaderBytes < 4<<10, "web.max_header_bytes must be at least 4KiB; the default is 256KiB"},
		rule{s.MaxBodyBytes <= 0, "web.max_body_bytes must be more than 0; the default is 10MiB"},
	), origin, pages)
}

// addWeb declares the flags of the HTTP server.
func (f *Flags) addWeb(to flagger) {
	var addrs Addresses
	to.Flag("web.listen-address", "Address to listen on; may be repeated.").PlaceHolder("127.0.0.1:9201").SetValue(&flagValue{cumulative: true, set: func(s string) error {
		addrs = append(addrs, s)
		f.given = append(f.given, func(t *Settings) { t.Web.ListenAddress = addrs })
		return nil
	}})
	f.text(to, "web.config.file", "FILE", "File that turns on TLS or authentication: https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md", func(s *Settings) *string { return &s.Web.ConfigFile })
	f.onOff(to, "web.enable-pprof", "Serve profiles under /debug/pprof.", func(s *Settings) *bool { return &s.Web.EnablePprof })
	f.onOff(to, "web.enable-lifecycle", "Serve /-/reload, which reads the configuration again, as SIGHUP does.", func(s *Settings) *bool { return &s.Web.EnableLifecycle })
	f.onOff(to, "web.enable-admin-api", "Serve /api/v1/admin/cache/drop, which has the cache forget samples, and /api/v1/admin/queries/cancel.", func(s *Settings) *bool { return &s.Web.EnableAdminAPI })
	f.onOff(to, "web.ready-needs-upstream", "Have /-/ready answer 503 while an upstream that queries need cannot be reached, for a load balancer that has others to send them to. Without it only until that was read once.", func(s *Settings) *bool { return &s.Web.ReadyNeedsUpstream })
	f.parsed(to, "web.shutdown-timeout", "30s", "How long to wait on SIGTERM for requests under way.", func(s *Settings) encoding.TextUnmarshaler { return &s.Web.ShutdownTimeout })
	f.text(to, "web.cors.origin", ".*", "Regular expression, matched whole, of the origins of browser requests to allow.", func(s *Settings) *string { return &s.Web.CORSOrigin })
	f.text(to, "web.upstream-url", "URL", "Base URL at which browsers reach the upstream, where /graph and other links to Prometheus's pages lead. By default the one that promwarp reaches it at.", func(s *Settings) *string { return &s.Web.UpstreamURL })
	f.parsed(to, "web.read-timeout", "5m", "Longest that a request may take to arrive, and that a connection may stay open without one.", func(s *Settings) encoding.TextUnmarshaler { return &s.Web.ReadTimeout })
	f.parsed(to, "web.write-timeout", "1m", "Longest that a client may read nothing of its answer; then its connection is closed.", func(s *Settings) encoding.TextUnmarshaler { return &s.Web.WriteTimeout })
	f.number(to, "web.max-connections", "512", "Connections that may be open at once, of all addresses together; others wait.", func(s *Settings) *int { return &s.Web.MaxConnections })
	f.parsed(to, "web.max-header-bytes", "256KiB", "Most bytes of a request's line and header.", func(s *Settings) encoding.TextUnmarshaler { return &s.Web.MaxHeaderBytes })
	f.parsed(to, "web.max-body-bytes", "10MiB", "Most bytes of a request's body.", func(s *Settings) encoding.TextUnmarshaler { return &s.Web.MaxBodyBytes })
}

// values lists the settings by the names of their flags.
func (s *webSettings) values() map[string]string {
	return map[string]string{
		"web.listen-address":       strings.Join(s.ListenAddress, ","),
		"web.config.file":          s.ConfigFile,
		"web.enable-pprof":         strconv.FormatBool(s.EnablePprof),
		"web.enable-lifecycle":     strconv.FormatBool(s.EnableLifecycle),
		"web.enable-admin-api":     strconv.FormatBool(s.EnableAdminAPI),
		"web.ready-needs-upstream": strconv.FormatBool(s.ReadyNeedsUpstream),
		"web.shutdown-timeout":     s.ShutdownTimeout.String(),
		"web.cors.origin":          s.CORSOrigin,
		"web.upstream-url":         urltext.Setting(s.UpstreamURL),
		"web.read-timeout":         s.ReadTimeout.String(),
		"web.write-timeout":        s.WriteTimeout.String(),
		"web.max-connections":      strconv.Itoa(s.MaxConnections),
		"web.max-header-bytes":     s.MaxHeaderBytes.String(),
		"web.max-body-bytes":       s.MaxBodyBytes.String(),
	}
}

// Apply gives the settings to the doors.
func (s *webSettings) Apply(o *api.Options) {
	o.Pprof = s.EnablePprof
	o.MaxBodyBytes = int64(s.MaxBodyBytes)
	o.BodyTimeout = time.Duration(s.ReadTimeout)
	o.WriteTimeout = time.Duration(s.WriteTimeout)
}

// OriginRegexp is the regular expression that a browser's origin must match.
func (s *webSettings) OriginRegexp() (*regexp.Regexp, error) {
	re, err := regexp.Compile("^(?s:" + s.CORSOrigin + ")$")
	if err != nil {
		return nil, fmt.Errorf("web.cors_origin: %w", err)
	}
	return re, nil
}

// PagesURL is the base URL at which browsers reach the upstream's pages, nil when it
// is not set.
func (s *webSettings) PagesURL() (*url.URL, error) {
	if s.UpstreamURL == "" {
		return nil, nil
	}
	return parseBase("web.upstream_url", s.UpstreamURL)
}
