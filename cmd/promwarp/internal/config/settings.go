// Package config is what the command line and the configuration file say. Flags declares the flags;
// Flags.Load reads the file, applies the command line over it and returns Settings, which Divide
// and Validate complete and check. What depends on upstreams as well follows from Settings.Engine.
package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/alecthomas/units"
	"github.com/prometheus/common/model"
	promconfig "github.com/prometheus/prometheus/config"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/remoteread"
	"github.com/promwarp/promwarp/resample/custom"
)

// Settings are everything that the command line and the configuration file
// say. The key of a setting in the file follows from its flag: --a.b-c is
// a: {b_c: …}, and --a.b.c is a: {b_c: …} too.
type Settings struct {
	Upstream   UpstreamSettings      `yaml:"upstream"`
	TSDB       tsdbSettings          `yaml:"tsdb"`
	RemoteRead []*remoteReadSettings `yaml:"remote_read"`
	Query      querySettings         `yaml:"query"`
	// Aggregates are custom aggregates of resample requests.
	Aggregates []custom.Source `yaml:"aggregates"`
	Cache      CacheSettings   `yaml:"cache"`
	Memory     memorySettings  `yaml:"memory"`
	Storage    storageSettings `yaml:"storage"`
	Readers    remoteReaders   `yaml:"read"`
	GPU        GPUSettings     `yaml:"gpu"`
	Web        webSettings     `yaml:"web"`
	Compare    compareSettings `yaml:"compare"`
	// Tracing is Prometheus's block: where traces go.
	Tracing promconfig.TracingConfig `yaml:"tracing"`
	Log     logSettings              `yaml:"log"`
	// EnableFeature are the features of Prometheus that queries may use.
	EnableFeature featureList `yaml:"enable_feature"`

	// Replaced says what of the file does not count because of a flag; empty for nothing.
	Replaced string `yaml:"-"`
}

// UpstreamSettings name the Prometheus-compatible server that is read from, and
// say how all of them are.
type UpstreamSettings struct {
	// URL is the base of the server's HTTP API, without /api/v1.
	URL string `yaml:"url"`
	// MaxBytes is the most that one fetch may bring.
	MaxBytes ByteSize `yaml:"max_bytes"`
	// MaxFrameBytes is the most that one frame of an answer may hold.
	MaxFrameBytes ByteSize `yaml:"max_frame_bytes"`
	// Concurrency is the number of requests in flight at once; 0 for remoteread's default.
	Concurrency int `yaml:"concurrency"`
	// Retention is how far back the server keeps its data; 0 means that it drops
	// none.
	Retention model.Duration `yaml:"retention"`
	// ExternalLabels are those that the server adds to its series.
	ExternalLabels ExternalLabels `yaml:"external_labels"`
}

// tsdbSettings name a local Prometheus data directory that is read from.
type tsdbSettings struct {
	Path string `yaml:"path"`
}

// querySettings bound what one query may do. They are Prometheus's own.
type querySettings struct {
	Timeout    model.Duration `yaml:"timeout"`
	MaxSamples int            `yaml:"max_samples"`
	// MaxMemory bounds a query's result and what leads to it; 0 means no bound.
	MaxMemory      ByteSize     `yaml:"max_memory"`
	MaxConcurrency int          `yaml:"max_concurrency"`
	LookbackDelta  AutoDuration `yaml:"lookback_delta"`
	// EvaluationInterval is the step of a subquery that has none.
	EvaluationInterval AutoDuration `yaml:"evaluation_interval"`
	// Exact says how exact answers are where requests do not say it.
	Exact         plan.Exact `yaml:"exact"`
	QueueSettings `yaml:",inline"`

	TextSettings `yaml:",inline"`
	// CustomAggregates says that requests may define aggregates.
	CustomAggregates bool `yaml:"custom_aggregates"`
}

// CacheSettings bound what the cache keeps.
type CacheSettings struct {
	HostBytes ByteSize `yaml:"host_bytes"`
	// DecodedBytes is how much of HostBytes decoded columns may take; half of
	// it if negative.
	DecodedBytes ByteSize `yaml:"decoded_bytes"`
	// ResultsBytes is the most memory for results of aggregations, beside
	// HostBytes.
	ResultsBytes ByteSize `yaml:"results_bytes"`
	// Path is a directory where what is cached survives a restart; empty for
	// none.
	Path string `yaml:"path"`
	// DiskBytes is the most bytes of files in Path.
	DiskBytes ByteSize `yaml:"disk_bytes"`
	// Fresh is how long samples may still arrive or change.
	Fresh model.Duration `yaml:"fresh"`
	// Recheck is how long samples younger than Fresh, of series that have newer ones,
	// are answered from what was fetched; 0 means that they are fetched for every query.
	Recheck model.Duration `yaml:"recheck"`
	// OutOfOrderWindow is the upstream's out_of_order_time_window.
	OutOfOrderWindow model.Duration `yaml:"out_of_order_window"`
	// MaxAge is how long old samples are answered from what was fetched; 0 means
	// without end.
	MaxAge model.Duration `yaml:"max_age"`
	// Prefetch… bound what is fetched ahead of queries: requests a second, of which
	// 0 means none, bytes a second, 0 for no bound, and requests at once.
	PrefetchRequests    int      `yaml:"prefetch_requests"`
	PrefetchBytes       ByteSize `yaml:"prefetch_bytes"`
	PrefetchConcurrency int      `yaml:"prefetch_concurrency"`
}

// defaultDiskBytes is the default of cache.disk_bytes.
const defaultDiskBytes = 10 << 30

// Default are what holds where neither the command line nor the file
// says otherwise. They name nothing to read from.
func Default() Settings {
	return Settings{
		Query: querySettings{
			Timeout:        model.Duration(2 * time.Minute),
			MaxSamples:     50_000_000,
			MaxMemory:      unset,
			MaxConcurrency: 20,
			Exact:          plan.WithinTolerance,
			QueueSettings:  defaultQueue(),
			TextSettings:   defaultText(),
		},
		Upstream: UpstreamSettings{
			MaxBytes:      remoteread.DefaultMaxBytes,
			MaxFrameBytes: remoteread.DefaultMaxFrameBytes,
		},
		Cache: CacheSettings{
			HostBytes:    unset,
			DecodedBytes: -1,
			ResultsBytes: unset,
			DiskBytes:    defaultDiskBytes,
			Fresh:        model.Duration(cache.DefaultFresh),
			Recheck:      model.Duration(cache.DefaultRecheck),
			MaxAge:       model.Duration(cache.DefaultMaxAge),

			PrefetchRequests: 1, PrefetchBytes: 8 << 20, PrefetchConcurrency: 1,
		},
		Memory:  memorySettings{Limit: unset},
		Storage: defaultStorage(),
		Readers: defaultReaders(),
		GPU:     defaultGPU(),
		Web:     defaultWeb(),
		Compare: defaultCompare(),
		Log:     logSettings{Level: "info", Format: "logfmt"},
	}
}

// Validate checks what the types cannot say, and names all that is wrong.
func (s *Settings) Validate() error {
	_, err := s.Sources()
	return errors.Join(err, s.ValidateLimits())
}

// ValidateLimits checks everything but the source.
func (s *Settings) ValidateLimits() error {
	_, library := s.Library()
	_, log := NewLogger(s.Log, nil)
	return errors.Join(
		s.Query.TextSettings.validate(), library, s.Readers.validate(), s.limits(), s.Query.QueueSettings.validate(),
		s.Web.validate(), s.Compare.validate(), s.Memory.validate(s.Cache), s.Storage.validate(), s.GPU.validate(), log,
	)
}

// rule is something that settings must not be, and what is said of settings that are.
type rule struct {
	broken bool
	text   string
}

// broken names the rules that are broken, nil if none is.
func broken(rules ...rule) error {
	var all []error
	for _, r := range rules {
		if r.broken {
			all = append(all, errors.New(r.text))
		}
	}
	return errors.Join(all...)
}

// limits checks the settings of queries, upstreams and the cache.
func (s *Settings) limits() error {
	return broken(
		rule{s.Query.Timeout <= 0, "query.timeout must be more than 0; the default is 2m"},
		rule{s.Query.MaxSamples <= 0, "query.max_samples must be more than 0; the default is 50000000"},
		rule{s.Query.MaxMemory < 0, "query.max_memory must not be negative; 0 sets no limit"},
		rule{s.Query.MaxConcurrency <= 0, "query.max_concurrency must be more than 0; the default is 20"},
		rule{s.Upstream.MaxBytes <= 0, "upstream.max_bytes must be more than 0; the default is 4GiB"},
		rule{s.Upstream.MaxFrameBytes <= 0, "upstream.max_frame_bytes must be more than 0; the default is 64MiB"},
		rule{s.Upstream.Concurrency < 0, "upstream.concurrency must not be negative; 0 stands for half the cores, at least 4 and at most 8"},
		rule{s.Cache.HostBytes < 0, "cache.host_bytes must not be negative; 0 keeps nothing"},
		rule{s.Cache.HostBytes >= 0 && s.Cache.DecodedBytes > s.Cache.HostBytes, "cache.decoded_bytes must not be more than cache.host_bytes, of which it is a part; the default is half of it"},
		rule{s.Cache.ResultsBytes < 0, "cache.results_bytes must not be negative; 0 keeps no results"},
		rule{s.Cache.Path != "" && s.Cache.HostBytes == 0, "cache.path takes cache.host_bytes above 0: what is read from disk is kept in memory, too"},
		rule{s.Cache.DiskBytes <= 0, "cache.disk_bytes must be more than 0; the default is 10GiB"},
		rule{s.Cache.Fresh < 0, "cache.fresh must not be negative; the default is 10m"},
		rule{s.Cache.Recheck < 0, "cache.recheck must not be negative; 0 fetches all that is younger than cache.fresh for every query, the default is 5m"},
		rule{s.Cache.OutOfOrderWindow < 0, "cache.out_of_order_window must not be negative; 0 means that the upstream takes no samples out of order"},
		rule{s.Cache.MaxAge < 0, "cache.max_age must not be negative; 0 keeps samples without end, the default is 24h"},
		rule{s.Cache.PrefetchRequests < 0, "cache.prefetch_requests must not be negative; 0 fetches nothing ahead"},
		rule{s.Cache.PrefetchConcurrency < 1, "cache.prefetch_concurrency must be at least 1; cache.prefetch_requests: 0 fetches nothing ahead"},
		rule{s.Upstream.Retention < 0, "upstream.retention must not be negative; 0 means that the upstream drops nothing"},
	)
}

// Decoded is the part of HostBytes for decoded columns.
func (c CacheSettings) Decoded() ByteSize {
	if c.DecodedBytes < 0 {
		return c.HostBytes / 2
	}
	return c.DecodedBytes
}

// ByteSize is a number of bytes, written with a unit (4GiB, 512MB: both powers
// of two) or without.
type ByteSize int64

// UnmarshalText implements encoding.TextUnmarshaler, for flags and YAML.
func (b *ByteSize) UnmarshalText(text []byte) error {
	if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		*b = ByteSize(n)
		return nil
	}
	n, err := units.ParseBase2Bytes(string(text))
	if err != nil || n < 0 || n == math.MaxInt64 {
		return fmt.Errorf("not a size in bytes: %q; write one such as 4GiB or 512MiB", text)
	}
	*b = ByteSize(n)
	return nil
}

func (b ByteSize) String() string { return units.Base2Bytes(b).String() }

// Addresses is a list that YAML may also give as one string.
type Addresses []string

// UnmarshalYAML implements yaml.Unmarshaler.
func (a *Addresses) UnmarshalYAML(unmarshal func(any) error) error {
	var one string
	if unmarshal(&one) == nil {
		*a = Addresses{one}
		return nil
	}
	var many []string
	if err := unmarshal(&many); err != nil {
		return err
	}
	*a = many
	return nil
}
