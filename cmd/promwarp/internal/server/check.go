package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"

	"github.com/prometheus/exporter-toolkit/web"
	"go.yaml.in/yaml/v2"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/backend"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/traces"
)

// validate checks settings, but for the source where one is given.
func (s *Server) validate(set config.Settings) error {
	if s.cfg.Upstream != nil {
		return set.ValidateLimits()
	}
	return set.Validate()
}

// Check names all that New would refuse, but for addresses that others use and upstreams without
// remote read. It changes nothing.
func Check(set config.Settings) error {
	return errors.Join(set.Validate(), checkWebFile(set), checkAddresses(set.Web.ListenAddress), traces.Check(set.Tracing), backend.Check(set))
}

// checkAddresses checks that all addresses can be listened on at once. One that stands for all of the
// machine's addresses, as 0.0.0.0 does, leaves its port to no other.
func checkAddresses(all []string) (wrong error) {
	var before []*net.TCPAddr
	everywhere := func(ip net.IP) bool { return len(ip) == 0 || ip.IsUnspecified() }
	for i, text := range all {
		a, err := net.ResolveTCPAddr("tcp", text)
		if err == nil && a.Port != 0 && slices.ContainsFunc(before, func(b *net.TCPAddr) bool {
			return a.Port == b.Port && (a.IP.Equal(b.IP) || everywhere(a.IP) || everywhere(b.IP))
		}) {
			err = errors.New("an entry before has this address")
		}
		if err != nil {
			wrong = errors.Join(wrong, fmt.Errorf("web.listen_address: entry %d: %s: %w; write another, such as 127.0.0.1:9201", i+1, text, err))
			continue
		}
		before = append(before, a)
	}
	return wrong
}

// checkWebFile checks the file that turns on TLS or authentication.
func checkWebFile(set config.Settings) error {
	file := set.Web.ConfigFile
	if file == "" {
		return nil
	}
	if err := web.Validate(file); err != nil {
		return fmt.Errorf("web.config_file %s: %w", file, err)
	}
	return nil
}

// schemeOf is https if an exporter-toolkit configuration file turns on TLS.
func schemeOf(file string) string {
	var c struct {
		TLS map[string]any `yaml:"tls_server_config"`
	}
	if b, err := os.ReadFile(file); err == nil && yaml.Unmarshal(b, &c) == nil && len(c.TLS) > 0 {
		return "https"
	}
	return "http"
}
