package config

import (
	"encoding"
	"fmt"
	"maps"
	"strconv"

	"github.com/alecthomas/kingpin/v2"

	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/remoteread"
	"github.com/promwarp/promwarp/remoteread/urltext"
)

// Flags are the flags of the command line that are also settings of
// the configuration file.
type Flags struct {
	File string
	// Quiet has the log hold warnings alone unless the user says otherwise.
	Quiet bool
	given []func(*Settings) // what was given, in order
}

// HasSource reports whether the user says what to read from.
func (f *Flags) HasSource() bool {
	var s Settings
	for _, apply := range f.given {
		apply(&s)
	}
	return f.File != "" || s.Upstream.URL != "" || s.TSDB.Path != ""
}

// level is the log's level unless the user says otherwise.
func (f *Flags) level() string {
	if f.Quiet {
		return "warn"
	}
	return "info"
}

// flagger is an application or a command.
type flagger interface {
	Flag(name, help string) *kingpin.FlagClause
}

// flagValue is a kingpin.Value that notes how to apply what it was given. It
// has no default of its own, so it is set only if the user gave the flag.
type flagValue struct {
	set        func(text string) error
	text       string
	cumulative bool
}

func (v *flagValue) Set(text string) error { v.text = text; return v.set(text) }
func (v *flagValue) String() string        { return v.text }
func (v *flagValue) IsCumulative() bool    { return v.cumulative }

// boolFlagValue is a flagValue of a flag without argument.
type boolFlagValue struct{ flagValue }

func (*boolFlagValue) IsBoolFlag() bool { return true }

// text declares a flag whose value is any string.
func (f *Flags) text(to flagger, name, placeholder, help string, field func(*Settings) *string) {
	f.add(to, name, placeholder, help, func(s string) (func(*Settings), error) {
		return func(t *Settings) { *field(t) = s }, nil
	})
}

// number declares a flag whose value is an integer.
func (f *Flags) number(to flagger, name, placeholder, help string, field func(*Settings) *int) {
	f.add(to, name, placeholder, help, func(s string) (func(*Settings), error) {
		n, err := strconv.Atoi(s)
		if err != nil {
			return nil, fmt.Errorf("--%s: not a whole number: %q", name, s)
		}
		return func(t *Settings) { *field(t) = n }, nil
	})
}

// parsed declares a flag whose value a type of ours or Prometheus's reads.
func (f *Flags) parsed(to flagger, name, placeholder, help string, field func(*Settings) encoding.TextUnmarshaler) {
	f.add(to, name, placeholder, help, func(s string) (func(*Settings), error) {
		var check Settings
		if err := field(&check).UnmarshalText([]byte(s)); err != nil {
			return nil, fmt.Errorf("--%s: %w", name, err)
		}
		return func(t *Settings) { _ = field(t).UnmarshalText([]byte(s)) }, nil
	})
}

// onOff declares a flag without argument.
func (f *Flags) onOff(to flagger, name, help string, field func(*Settings) *bool) {
	to.Flag(name, help).SetValue(&boolFlagValue{flagValue{set: func(s string) error {
		on, err := strconv.ParseBool(s)
		f.given = append(f.given, func(t *Settings) { *field(t) = on })
		return err
	}}})
}

func (f *Flags) add(to flagger, name, placeholder, help string, parse func(string) (func(*Settings), error)) {
	to.Flag(name, help).PlaceHolder(placeholder).SetValue(&flagValue{set: func(s string) error {
		apply, err := parse(s)
		if err == nil {
			f.given = append(f.given, apply)
		}
		return err
	}})
}

// AddAll declares all flags, those of a server.
func (f *Flags) AddAll(to flagger) {
	f.AddSource(to)
	f.AddQuery(to)
	f.addServer(to)
	f.AddGPU(to)
}

// AddSource declares the flags that say what to read from.
func (f *Flags) AddSource(to flagger) {
	to.Flag("config.file", "Configuration file, in YAML. A flag --a.b-c is the key a: {b_c: ...}; remote_read is as in Prometheus's. What is given on the command line wins.").PlaceHolder("FILE").StringVar(&f.File)
	f.text(to, "upstream.url", "URL", "Base URL of the Prometheus-compatible server to read from, such as http://prometheus:9090.", func(s *Settings) *string { return &s.Upstream.URL })
	f.text(to, "tsdb.path", "DIRECTORY", "Local Prometheus data directory to read from instead.", func(s *Settings) *string { return &s.TSDB.Path })
	f.parsed(to, remoteread.FlagMaxBytes, "4GiB", "Most bytes that fetching one selector may bring.", func(s *Settings) encoding.TextUnmarshaler { return &s.Upstream.MaxBytes })
	f.parsed(to, remoteread.FlagMaxFrameBytes, "64MiB", "Most bytes that one frame of the upstream's answer may hold.", func(s *Settings) encoding.TextUnmarshaler { return &s.Upstream.MaxFrameBytes })
	f.parsed(to, remoteread.FlagExternalLabels, "auto", "Labels that the upstream adds to the series it sends: auto takes off those of its configuration, name=value,... those, none takes off none, keep leaves them in answers.", func(s *Settings) encoding.TextUnmarshaler { return &s.Upstream.ExternalLabels })
	f.number(to, "upstream.concurrency", "0", "Requests to the upstream in flight at once; 0 for half as many as there are cores, at least 4 and at most 8.", func(s *Settings) *int { return &s.Upstream.Concurrency })
}

// AddQuery declares the flags that bound queries, and those of the log.
func (f *Flags) AddQuery(to flagger) {
	f.parsed(to, memory.FlagLimit, "SIZE", "Memory of the process, such as 8GiB, of which the cache, fetches, queries and answers take what they need; what finds none left waits briefly and is then refused. 0 sets no limit. By default 90 % of the memory that the program may use.", func(s *Settings) encoding.TextUnmarshaler { return &s.Memory.Limit })
	f.parsed(to, "query.timeout", "2m", "Longest that a query may take.", func(s *Settings) encoding.TextUnmarshaler { return &s.Query.Timeout })
	f.number(to, "query.max-samples", "50000000", "Most samples that a query may hold in memory at once.", func(s *Settings) *int { return &s.Query.MaxSamples })
	f.parsed(to, "query.max-memory", "SIZE", "Most memory that a query may take for its result and what leads to it, such as 2GiB; 0 sets no limit. By default a quarter of memory.limit.", func(s *Settings) encoding.TextUnmarshaler { return &s.Query.MaxMemory })
	f.addText(to)
	f.parsed(to, "query.lookback-delta", "auto", "How far back an instant selector looks for a sample; auto is what the upstream has, or 5m.", func(s *Settings) encoding.TextUnmarshaler { return &s.Query.LookbackDelta })
	f.parsed(to, "query.evaluation-interval", "auto", "Step of a subquery that has none, in Prometheus its global evaluation_interval; auto is what the upstream has, or 1m.", func(s *Settings) encoding.TextUnmarshaler { return &s.Query.EvaluationInterval })
	f.parsed(to, "query.exact", "1e-12", "How exact answers are where requests do not say it: 1e-12 lets avg_over_time, stddev_over_time, stdvar_over_time, deriv and predict_linear differ from Prometheus by that, relative; bits has Prometheus's very bits, which takes longer over long windows.", func(s *Settings) encoding.TextUnmarshaler { return &s.Query.Exact })
	f.parsed(to, "enable-feature", "auto", "Features of Prometheus that queries may use, by its names and with commas between them; auto is what the upstream has on, none is none.", func(s *Settings) encoding.TextUnmarshaler { return &s.EnableFeature })
	f.text(to, "log.level", f.level(), "Least severe messages to log: debug, info, warn or error.", func(s *Settings) *string { return &s.Log.Level })
	f.text(to, "log.format", "logfmt", "Form of the log: logfmt or json.", func(s *Settings) *string { return &s.Log.Format })
}

// addServer declares the flags of a server.
func (f *Flags) addServer(to flagger) {
	f.number(to, "query.max-concurrency", "20", "Queries that may run at once.", func(s *Settings) *int { return &s.Query.MaxConcurrency })
	f.parsed(to, "cache.host-bytes", "SIZE", "Most memory for cached samples, such as 4GiB; 0 keeps none. By default a quarter of memory.limit.", func(s *Settings) encoding.TextUnmarshaler { return &s.Cache.HostBytes })
	f.parsed(to, "cache.decoded-bytes", "SIZE", "How much of cache.host-bytes may hold decoded samples of series, those that are asked for again and again before others; 0 keeps none decoded. By default half of it.", func(s *Settings) encoding.TextUnmarshaler { return &s.Cache.DecodedBytes })
	f.parsed(to, "cache.results-bytes", "SIZE", "Most memory for results of aggregations, which spare a dashboard that is looked at again all but its newest steps; 0 keeps none. By default 64MiB, or an eighth of memory.limit if that is less.", func(s *Settings) encoding.TextUnmarshaler { return &s.Cache.ResultsBytes })
	f.text(to, "cache.path", "DIRECTORY", "Directory where cached samples survive a restart. It belongs to one promwarp alone.", func(s *Settings) *string { return &s.Cache.Path })
	f.parsed(to, "cache.disk-bytes", "10GiB", "Most bytes of files in cache.path.", func(s *Settings) encoding.TextUnmarshaler { return &s.Cache.DiskBytes })
	f.parsed(to, "cache.fresh", "10m", "How long samples may still arrive or change: what is younger is not kept for long.", func(s *Settings) encoding.TextUnmarshaler { return &s.Cache.Fresh })
	f.parsed(to, "cache.recheck", "5m", "How long samples younger than cache.fresh, of series that have newer ones, are answered from what was fetched; then they are fetched again. Not where there is an out-of-order window. 0 fetches all of them for every query.", func(s *Settings) encoding.TextUnmarshaler { return &s.Cache.Recheck })
	f.parsed(to, "cache.out-of-order-window", "0s", "The upstream's out_of_order_time_window; it counts on top of cache.fresh.", func(s *Settings) encoding.TextUnmarshaler { return &s.Cache.OutOfOrderWindow })
	f.parsed(to, "cache.max-age", "1d", "How long older samples are answered from what was fetched; then they are fetched again, which shows deletions and backfills. 0 means without end.", func(s *Settings) encoding.TextUnmarshaler { return &s.Cache.MaxAge })
	f.number(to, "cache.prefetch-requests", "1", "Most requests a second that fetch the newest samples of selectors that keep being asked for, before they are asked for again; 0 fetches nothing ahead.", func(s *Settings) *int { return &s.Cache.PrefetchRequests })
	f.parsed(to, "cache.prefetch-bytes", "8MiB", "Most bytes a second that these may bring; 0 sets no limit.", func(s *Settings) encoding.TextUnmarshaler { return &s.Cache.PrefetchBytes })
	f.number(to, "cache.prefetch-concurrency", "1", "Most of these requests at once.", func(s *Settings) *int { return &s.Cache.PrefetchConcurrency })
	f.parsed(to, "upstream.retention", "0s", "How far back the upstream keeps its data, its storage.tsdb.retention.time: what is older may vanish there at any time and is fetched for every query. 0 means that it drops nothing.", func(s *Settings) encoding.TextUnmarshaler { return &s.Upstream.Retention })

	f.addQueue(to)
	f.addAggregates(to)
	f.addStorage(to)
	f.addReaders(to)
	f.addCompare(to)
	f.addLog(to)
	f.addWeb(to)
}

// Load reads the configuration file, if any, and applies the command line over
// it. A source on the command line replaces the file's as a whole, remote_read
// included. Relative paths are the current directory's on the command line and
// the file's directory's in the file.
func (f *Flags) Load() (Settings, error) {
	s := Default()
	if f.File != "" {
		var err error
		if s, err = readSettings(f.File); err != nil {
			return s, err
		}
	}
	if f.Quiet {
		s.Log.Level = f.level() // the file's is the server's
	}
	var flags Settings
	for _, apply := range f.given {
		apply(&flags)
	}
	if flags.Upstream.URL != "" || flags.TSDB.Path != "" {
		if s.Upstream.URL != "" || s.TSDB.Path != "" || len(s.RemoteRead) > 0 {
			s.Replaced = "what the command line says to read from counts, and not upstream.url, tsdb.path and remote_read of " + f.File
		}
		s.Upstream.URL, s.TSDB.Path, s.RemoteRead = "", "", nil
	}
	for _, apply := range f.given {
		apply(&s)
	}
	s.Divide()
	return s, nil
}

// Values lists the settings by the names of their flags.
func (s *Settings) Values() map[string]string {
	all := map[string]string{
		"upstream.url":                urltext.Setting(s.Upstream.URL),
		remoteread.FlagMaxBytes:       s.Upstream.MaxBytes.String(),
		remoteread.FlagMaxFrameBytes:  s.Upstream.MaxFrameBytes.String(),
		"upstream.concurrency":        strconv.Itoa(s.Upstream.Concurrency),
		"tsdb.path":                   s.TSDB.Path,
		"query.timeout":               s.Query.Timeout.String(),
		"query.max-samples":           strconv.Itoa(s.Query.MaxSamples),
		memory.FlagLimit:              s.Memory.Limit.String(),
		"query.max-memory":            s.Query.MaxMemory.String(),
		"query.max-concurrency":       strconv.Itoa(s.Query.MaxConcurrency),
		"query.custom-aggregates":     strconv.FormatBool(s.Query.CustomAggregates),
		"query.lookback-delta":        s.Query.LookbackDelta.String(),
		"query.exact":                 string(s.Query.Exact),
		"query.evaluation-interval":   s.Query.EvaluationInterval.String(),
		"enable-feature":              s.EnableFeature.String(),
		remoteread.FlagExternalLabels: s.Upstream.ExternalLabels.String(),
		"cache.host-bytes":            s.Cache.HostBytes.String(),
		"cache.decoded-bytes":         s.Cache.Decoded().String(),
		"cache.results-bytes":         s.Cache.ResultsBytes.String(),
		"cache.fresh":                 s.Cache.Fresh.String(),
		"cache.recheck":               s.Cache.Recheck.String(),
		"cache.path":                  s.Cache.Path,
		"cache.disk-bytes":            s.Cache.DiskBytes.String(),
		"cache.out-of-order-window":   s.Cache.OutOfOrderWindow.String(),
		"cache.max-age":               s.Cache.MaxAge.String(),
		"cache.prefetch-requests":     strconv.Itoa(s.Cache.PrefetchRequests),
		"cache.prefetch-bytes":        s.Cache.PrefetchBytes.String(),
		"cache.prefetch-concurrency":  strconv.Itoa(s.Cache.PrefetchConcurrency),
		"upstream.retention":          s.Upstream.Retention.String(),
		"gpu":                         string(s.GPU.Mode),
		"gpu.devices":                 string(s.GPU.Devices),
		"gpu.memory-fraction":         s.GPU.MemoryFraction.String(),
		"gpu.memory-bytes":            s.GPU.MemoryBytes.String(),
		"gpu.constants":               s.GPU.Constants,
		"gpu.library":                 s.GPU.Library,
		"read.reader-lookback":        s.Readers.Lookback.String(),
		"log.level":                   s.Log.Level,
		"log.format":                  s.Log.Format,
		"log.queries":                 strconv.FormatBool(s.Log.Queries),
		"log.slow-queries":            s.Log.SlowQueries.String(),
	}
	maps.Copy(all, s.Storage.values())
	maps.Copy(all, s.Query.QueueSettings.values())
	maps.Copy(all, s.Web.values())
	maps.Copy(all, s.Compare.values())
	maps.Copy(all, s.Query.TextSettings.values())
	return all
}
