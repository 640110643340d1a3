package config

import (
	"fmt"
	"slices"

	"github.com/prometheus/common/model"
	promconfig "github.com/prometheus/prometheus/config"
	"go.yaml.in/yaml/v2"

	"github.com/promwarp/promwarp/remoteread/urltext"
)

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
	// OnFailure says what becomes of a query when the upstream fails.
	OnFailure onFailure `yaml:"on_failure"`
	// APIURL is the base of the upstream's HTTP API, without /api/v1, where the
	// entry's URL does not tell.
	APIURL           string          `yaml:"api_url"`
	Retention        *model.Duration `yaml:"retention"`
	Fresh            *model.Duration `yaml:"fresh"`
	Recheck          *model.Duration `yaml:"recheck"`
	OutOfOrderWindow *model.Duration `yaml:"out_of_order_window"`
	MaxAge           *model.Duration `yaml:"max_age"`
	ExternalLabels   *ExternalLabels `yaml:"external_labels"`
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

// extraKeys are the keys of remoteReadExtras.
var extraKeys = []string{"on_failure", "api_url", "retention", "fresh", "recheck", "out_of_order_window", "max_age", "external_labels"}

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
	r.RemoteReadConfig, r.RemoteReadExtras = promconfig.RemoteReadConfig(all.remoteRead), all.RemoteReadExtras

	// Prometheus checks what it reads while it reads it.
	var keys yaml.MapSlice
	if err := unmarshal(&keys); err != nil {
		return err
	}
	keys = slices.DeleteFunc(keys, func(k yaml.MapItem) bool {
		name, _ := k.Key.(string)
		return slices.Contains(extraKeys, name)
	})
	theirs, err := yaml.Marshal(keys)
	if err != nil {
		return err
	}
	var check promconfig.RemoteReadConfig
	return yaml.Unmarshal(theirs, &check)
}
