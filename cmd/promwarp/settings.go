package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/alecthomas/units"
	"github.com/prometheus/common/model"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/remoteread"
	"github.com/promwarp/promwarp/remoteread/upstream"
)

// settings are everything that the command line and the configuration file
// say. The key of a setting in the file follows from its flag: --a.b-c is
// a: {b_c: …}, and --a.b.c is a: {b_c: …} too.
type settings struct {
	Upstream   upstreamSettings      `yaml:"upstream"`
	TSDB       tsdbSettings          `yaml:"tsdb"`
	RemoteRead []*remoteReadSettings `yaml:"remote_read"`
	Query      querySettings         `yaml:"query"`
	Cache      cacheSettings         `yaml:"cache"`
	Memory     memorySettings        `yaml:"memory"`
	Storage    storageSettings       `yaml:"storage"`
	GPU        gpuSettings           `yaml:"gpu"`
	Web        webSettings           `yaml:"web"`
	Log        logSettings           `yaml:"log"`
	// EnableFeature are the features of Prometheus that queries may use.
	EnableFeature featureList `yaml:"enable_feature"`
}

// upstreamSettings name the Prometheus-compatible server that is read from, and
// say how all of them are.
type upstreamSettings struct {
	// URL is the base of the server's HTTP API, without /api/v1.
	URL string `yaml:"url"`
	// MaxBytes is the most that one fetch may bring.
	MaxBytes byteSize `yaml:"max_bytes"`
	// MaxFrameBytes is the most that one frame of an answer may hold.
	MaxFrameBytes byteSize `yaml:"max_frame_bytes"`
	// Concurrency is the number of requests in flight at once.
	Concurrency int `yaml:"concurrency"`
	// Retention is how far back the server keeps its data; 0 means that it drops
	// none.
	Retention model.Duration `yaml:"retention"`
	// ExternalLabels are those that the server adds to its series.
	ExternalLabels externalLabels `yaml:"external_labels"`
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
	MaxMemory      byteSize     `yaml:"max_memory"`
	MaxConcurrency int          `yaml:"max_concurrency"`
	LookbackDelta  autoDuration `yaml:"lookback_delta"`
	// EvaluationInterval is the step of a subquery that has none.
	EvaluationInterval autoDuration `yaml:"evaluation_interval"`
	queueSettings      `yaml:",inline"`

	textSettings `yaml:",inline"`
}

// cacheSettings bound what the cache keeps.
type cacheSettings struct {
	HostBytes byteSize `yaml:"host_bytes"`
	// DecodedBytes is how much of HostBytes decoded columns may take; half of
	// it if negative.
	DecodedBytes byteSize `yaml:"decoded_bytes"`
	// ResultsBytes is the most memory for results of aggregations, beside
	// HostBytes.
	ResultsBytes byteSize `yaml:"results_bytes"`
	// Path is a directory where what is cached survives a restart; empty for
	// none.
	Path string `yaml:"path"`
	// DiskBytes is the most bytes of files in Path.
	DiskBytes byteSize `yaml:"disk_bytes"`
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
	PrefetchBytes       byteSize `yaml:"prefetch_bytes"`
	PrefetchConcurrency int      `yaml:"prefetch_concurrency"`
}

// logSettings are those of the program's log.
type logSettings struct {
	Level  string `yaml:"level"`
	Format string `yaml:"format"`
}

// The defaults of cache.disk_bytes and cache.results_bytes.
const (
	defaultDiskBytes    = 10 << 30
	defaultResultsBytes = 64 << 20
)

// defaultSettings are what holds where neither the command line nor the file
// says otherwise. They name nothing to read from.
func defaultSettings() settings {
	return settings{
		Query: querySettings{
			Timeout:        model.Duration(2 * time.Minute),
			MaxSamples:     50_000_000,
			MaxMemory:      unset,
			MaxConcurrency: 20,
			queueSettings:  defaultQueue(),
			textSettings:   defaultText(),
		},
		Upstream: upstreamSettings{
			MaxBytes:      remoteread.DefaultMaxBytes,
			MaxFrameBytes: remoteread.DefaultMaxFrameBytes,
			Concurrency:   remoteread.DefaultConcurrency,
		},
		Cache: cacheSettings{
			HostBytes:    unset,
			DecodedBytes: -1,
			ResultsBytes: defaultResultsBytes,
			DiskBytes:    defaultDiskBytes,
			Fresh:        model.Duration(cache.DefaultFresh),
			Recheck:      model.Duration(cache.DefaultRecheck),
			MaxAge:       model.Duration(cache.DefaultMaxAge),

			PrefetchRequests: 1, PrefetchBytes: 8 << 20, PrefetchConcurrency: 1,
		},
		Memory:  memorySettings{Limit: unset},
		Storage: defaultStorage(),
		GPU:     defaultGPU(),
		Web:     defaultWeb(),
		Log:     logSettings{Level: "info", Format: "logfmt"},
	}
}

// validate checks what the types cannot say.
func (s *settings) validate() error {
	if _, err := s.sources(); err != nil {
		return err
	}
	return s.validateLimits()
}

// validateLimits checks everything but the source.
func (s *settings) validateLimits() error {
	if err := s.Query.textSettings.validate(); err != nil {
		return err
	}
	switch {
	case s.Query.Timeout <= 0:
		return errors.New("query.timeout must be more than 0; the default is 2m")
	case s.Query.MaxSamples <= 0:
		return errors.New("query.max_samples must be more than 0; the default is 50000000")
	case s.Query.MaxMemory < 0:
		return errors.New("query.max_memory must not be negative; 0 sets no limit")
	case s.Query.MaxConcurrency <= 0:
		return errors.New("query.max_concurrency must be more than 0; the default is 20")
	case s.Upstream.MaxBytes <= 0:
		return errors.New("upstream.max_bytes must be more than 0; the default is 4GiB")
	case s.Upstream.MaxFrameBytes <= 0:
		return errors.New("upstream.max_frame_bytes must be more than 0; the default is 64MiB")
	case s.Upstream.Concurrency <= 0:
		return errors.New("upstream.concurrency must be more than 0; the default is 4")
	case s.Cache.HostBytes < 0:
		return errors.New("cache.host_bytes must not be negative; 0 keeps nothing")
	case s.Cache.DecodedBytes > s.Cache.HostBytes:
		return errors.New("cache.decoded_bytes must not be more than cache.host_bytes, of which it is a part; the default is half of it")
	case s.Cache.ResultsBytes < 0:
		return errors.New("cache.results_bytes must not be negative; 0 keeps no results")
	case s.Cache.Path != "" && s.Cache.HostBytes == 0:
		return errors.New("cache.path takes cache.host_bytes above 0: what is read from disk is kept in memory, too")
	case s.Cache.DiskBytes <= 0:
		return errors.New("cache.disk_bytes must be more than 0; the default is 10GiB")
	case s.Cache.Fresh < 0:
		return errors.New("cache.fresh must not be negative; the default is 10m")
	case s.Cache.Recheck < 0:
		return errors.New("cache.recheck must not be negative; 0 fetches all that is younger than cache.fresh for every query, the default is 5m")
	case s.Cache.OutOfOrderWindow < 0:
		return errors.New("cache.out_of_order_window must not be negative; 0 means that the upstream takes no samples out of order")
	case s.Cache.MaxAge < 0:
		return errors.New("cache.max_age must not be negative; 0 keeps samples without end, the default is 24h")
	case s.Cache.PrefetchRequests < 0:
		return errors.New("cache.prefetch_requests must not be negative; 0 fetches nothing ahead")
	case s.Cache.PrefetchConcurrency < 1:
		return errors.New("cache.prefetch_concurrency must be at least 1; cache.prefetch_requests: 0 fetches nothing ahead")
	case s.Upstream.Retention < 0:
		return errors.New("upstream.retention must not be negative; 0 means that the upstream drops nothing")
	}
	if err := s.Query.queueSettings.validate(); err != nil {
		return err
	}
	if err := s.Web.validate(); err != nil {
		return err
	}
	if err := s.Memory.validate(s.Cache); err != nil {
		return err
	}
	if err := s.Storage.validate(); err != nil {
		return err
	}
	if err := s.GPU.validate(); err != nil {
		return err
	}
	_, err := newLogger(s.Log, nil)
	return err
}

// engine returns what an engine is made from before upstreams of which f is known.
func (s *settings) engine(f upstream.Facts) engineSettings {
	query := s.Query
	query.queueSettings = queueSettings{} // the engine does not depend on them
	return engineSettings{
		querySettings: query, decodedBytes: int64(s.Cache.decoded()), resultsBytes: int64(s.Cache.ResultsBytes),
		lookback: s.Query.LookbackDelta.or(f.Lookback, defaultLookback),
		interval: s.Query.EvaluationInterval.or(f.EvaluationInterval, upstream.DefaultEvaluationInterval),
		features: s.EnableFeature.or(f.Features),
	}
}

// defaultLookback is Prometheus's default of --query.lookback-delta.
const defaultLookback = 5 * time.Minute

// decoded is the part of HostBytes for decoded columns.
func (c cacheSettings) decoded() byteSize {
	if c.DecodedBytes < 0 {
		return c.HostBytes / 2
	}
	return c.DecodedBytes
}

// byteSize is a number of bytes, written with a unit (4GiB, 512MB: both powers
// of two) or without.
type byteSize int64

// UnmarshalText implements encoding.TextUnmarshaler, for flags and YAML.
func (b *byteSize) UnmarshalText(text []byte) error {
	if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		*b = byteSize(n)
		return nil
	}
	n, err := units.ParseBase2Bytes(string(text))
	if err != nil || n < 0 || n == math.MaxInt64 {
		return fmt.Errorf("not a size in bytes: %q; write one such as 4GiB or 512MiB", text)
	}
	*b = byteSize(n)
	return nil
}

func (b byteSize) String() string { return units.Base2Bytes(b).String() }

// addresses is a list that YAML may also give as one string.
type addresses []string

// UnmarshalYAML implements yaml.Unmarshaler.
func (a *addresses) UnmarshalYAML(unmarshal func(any) error) error {
	var one string
	if unmarshal(&one) == nil {
		*a = addresses{one}
		return nil
	}
	var many []string
	if err := unmarshal(&many); err != nil {
		return err
	}
	*a = many
	return nil
}
