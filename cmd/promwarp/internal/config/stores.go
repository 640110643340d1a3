package config

import (
	"errors"
	"fmt"
	"time"

	commonconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"

	"github.com/promwarp/promwarp/remoteread/stores"
)

// storeSettings is an entry of stores: a store of Thanos, over gRPC. Keys of the same names as in an entry
// of remote_read mean the same.
type storeSettings struct {
	Address       string                  `yaml:"address"`
	Name          string                  `yaml:"name"`
	RemoteTimeout model.Duration          `yaml:"remote_timeout"`
	TLSConfig     *commonconfig.TLSConfig `yaml:"tls_config"`
	Headers       map[string]string       `yaml:"headers"`
	MaxResolution model.Duration          `yaml:"max_resolution"`
	commonExtras  `yaml:",inline"`
}

// storeSources are the stores, in the order of their entries.
func (s *Settings) storeSources() (all []Source, err error) {
	if s.Upstream.URL != "" || len(s.RemoteRead) > 0 || s.TSDB.Path != "" {
		return nil, errors.New("stores are given beside another source: promwarp reads from stores of Thanos or from servers with remote read, not from both; list the sidecar of each Prometheus under stores, or remove stores")
	}
	names := map[string]bool{}
	for i, one := range s.Stores {
		src := Source{Setting: fmt.Sprintf("stores: entry %d", i+1), Entry: i, Store: &stores.Config{
			Name: one.Name, Address: one.Address, TLS: one.TLSConfig, Headers: one.Headers,
			Timeout: time.Duration(one.RemoteTimeout), Partial: one.OnFailure == WarnQuery, MaxResolution: time.Duration(one.MaxResolution),
		}}
		if err := src.Store.Validate(); err != nil {
			return nil, fmt.Errorf("%s: %w", src.Setting, err)
		}
		if one.MaxResolution > 0 && len(s.Stores) > 1 {
			return nil, fmt.Errorf("%s: max_resolution with several entries: samples of a lower resolution cannot be joined with other upstreams' samples; read them with a promwarp of its own, from one store gateway or Querier", src.Setting)
		}
		if names[src.Name()] {
			return nil, fmt.Errorf("stores: two entries are called %s: give each a name of its own", src.Name())
		}
		names[src.Name()] = true
		all = append(all, src)
	}
	return all, nil
}

// Extras are what entry i has besides its sources.
func (s *Settings) Extras(i int) RemoteReadExtras {
	switch {
	case len(s.Stores) > 0:
		return RemoteReadExtras{commonExtras: s.Stores[i].commonExtras}
	case len(s.RemoteRead) > 0:
		return s.RemoteRead[i].RemoteReadExtras
	}
	return RemoteReadExtras{}
}
