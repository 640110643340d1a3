// Package config is what the command line and the configuration file say. Settings is the table of all
// settings; flags, the file's keys, defaults, bounds and the page of settings come from it. Flags.Load
// reads the file, applies the command line over it and returns Settings, which Validate checks. What
// depends on upstreams as well follows from Settings.Engine.
package config

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/prometheus/common/model"
	promconfig "github.com/prometheus/prometheus/config"
	"golang.org/x/net/http/httpguts"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/footprint"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/remoteread/upstream"
	"github.com/promwarp/promwarp/resample/custom"
)

// Settings are everything that the command line and the configuration file say: the one table from which
// flags, keys of the file, defaults, bounds and docs/configuration.md come. A field with a help text is a
// setting; its tags, or those of what it is in, say
//
//	yaml     its key; its flag is the same with dashes for underscores
//	as       what stands for a value in help; of FILE and DIRECTORY the file has paths from its own folder
//	default  its default; those without one follow from the machine (Default and Divide) or are empty
//	of       the values that there are
//	least    the least number, 0 without it; most is the most
//	reload   what a change takes, "at once" without it
//	only     serve, where other commands do not have it
//	title    its heading in docs/configuration.md
//	hidden   yes, where its default should do for everybody: it works, and help leaves it out
type Settings struct {
	Upstream      UpstreamSettings `yaml:"upstream" title:"What is read from" reload:"opens the cache anew"`
	TSDB          tsdbSettings     `yaml:"tsdb" title:"What is read from" reload:"opens the cache anew"`
	Query         querySettings    `yaml:"query" title:"Queries"`
	EnableFeature List             `yaml:"enable_feature" default:"auto" title:"Queries" help:"Features of Prometheus that queries may use, by its names and with commas between them; auto is what the upstream has on, none is none."`
	Memory        memorySettings   `yaml:"memory" title:"Memory and the cache"`
	Cache         CacheSettings    `yaml:"cache" title:"Memory and the cache" reload:"opens the cache anew" only:"serve"`
	GPU           GPUSettings      `yaml:"gpu" title:"GPUs" reload:"restart"`
	Web           webSettings      `yaml:"web" title:"The HTTP server" reload:"restart" only:"serve"`
	GRPC          grpcSettings     `yaml:"grpc" title:"Thanos" reload:"restart" only:"serve"`
	Storage       storageSettings  `yaml:"storage" title:"Remote read that is answered" only:"serve"`
	Readers       readerSettings   `yaml:"read" title:"Remote read that is answered" only:"serve"`
	Compare       compareSettings  `yaml:"compare" title:"Checking answers, and the log" only:"serve"`
	Log           logSettings      `yaml:"log" title:"Checking answers, and the log"`

	// These the file alone has.
	RemoteRead []*remoteReadSettings    `yaml:"remote_read"`
	Stores     []*storeSettings         `yaml:"stores"`     // of Thanos
	Aggregates []custom.Source          `yaml:"aggregates"` // of resample requests
	Tracing    promconfig.TracingConfig `yaml:"tracing"`    // where traces go: Prometheus's block

	// Replaced says what of the file does not count because of a flag; empty for nothing.
	Replaced string `yaml:"-"`
}

// UpstreamSettings name the Prometheus-compatible server that is read from, and say how all of them are.
type UpstreamSettings struct {
	URL            string         `yaml:"url" as:"URL" help:"Base URL of the Prometheus-compatible server to read from, such as http://prometheus:9090."`
	MaxBytes       ByteSize       `yaml:"max_bytes" hidden:"yes" default:"4GiB" least:"1" help:"Most bytes that fetching one selector may bring."`
	MaxFrameBytes  ByteSize       `yaml:"max_frame_bytes" hidden:"yes" default:"64MiB" least:"1" help:"Most bytes that one frame of the upstream's answer may hold."`
	ExternalLabels ExternalLabels `yaml:"external_labels" default:"auto" help:"Labels that the upstream adds to the series it sends: auto takes off those of its configuration, name=value,... those, none takes off none, keep leaves them in answers."`
	ReplicaLabels  string         `yaml:"replica_labels" hidden:"yes" as:"NAMES" only:"serve" help:"Where external labels are kept: those, with commas between them, that are taken off nevertheless, as a Thanos Querier does with its query.replica-label."`
	Concurrency    int            `yaml:"concurrency" default:"0" most:"10000" help:"Requests to the upstream in flight at once; 0 for half as many as there are cores, at least 4 and at most 8."`
	Retention      model.Duration `yaml:"retention" default:"0s" only:"serve" help:"How far back the upstream keeps its data, its storage.tsdb.retention.time: what is older may vanish there at any time and is fetched for every query. 0 means that it drops nothing."`
}

// tsdbSettings name a local Prometheus data directory that is read from.
type tsdbSettings struct {
	Path string `yaml:"path" as:"DIRECTORY" help:"Local Prometheus data directory to read from instead."`
}

// querySettings bound what one query may do. They are Prometheus's own.
type querySettings struct {
	Timeout            model.Duration `yaml:"timeout" default:"2m" least:"1ms" help:"Longest that a query may take."`
	MaxSamples         int            `yaml:"max_samples" default:"50000000" least:"1" help:"Most samples that a query may hold in memory at once."`
	MaxMemory          ByteSize       `yaml:"max_memory" as:"SIZE" help:"Most memory that a query may take for its result and what leads to it, such as 2GiB; 0 sets no limit. By default a quarter of memory.limit."`
	MaxDepth           int            `yaml:"max_depth" hidden:"yes" default:"2500" least:"1" help:"Most levels that a query may be nested, operators in a row included."`
	MaxLength          int            `yaml:"max_length" hidden:"yes" default:"1048576" least:"1" help:"Most bytes of a query's text."`
	MaxRegexpSize      int            `yaml:"max_regexp_size" hidden:"yes" default:"524288" least:"1" help:"Most instructions, of 40 bytes each, that the regular expressions of a query may compile to."`
	MaxSelectors       int            `yaml:"max_selectors" hidden:"yes" default:"1000" least:"1" help:"Most selectors of a request."`
	MaxItems           int            `yaml:"max_items" hidden:"yes" default:"200" least:"1" help:"Most matchers of a selector, labels of a grouping, or items of another list of a request."`
	LookbackDelta      AutoDuration   `yaml:"lookback_delta" default:"auto" help:"How far back an instant selector looks for a sample; auto is what the upstream has, or 5m."`
	EvaluationInterval AutoDuration   `yaml:"evaluation_interval" hidden:"yes" default:"auto" help:"Step of a subquery that has none, in Prometheus its global evaluation_interval; auto is what the upstream has, or 1m."`
	Exact              plan.Exact     `yaml:"exact" default:"1e-12" help:"How exact answers are where requests do not say it: 1e-12 lets avg_over_time, stddev_over_time, stdvar_over_time, deriv and predict_linear differ from Prometheus by that, relative; bits has Prometheus's very bits, which takes longer over long windows."`
	MaxConcurrency     int            `yaml:"max_concurrency" default:"20" least:"1" only:"serve" help:"Queries that may run at once."`
	QueueSettings      `yaml:",inline" only:"serve"`
}

// QueueSettings are those of queries that an engine does not depend on: how they wait for others to end.
type QueueSettings struct {
	MaxLists         int            `yaml:"max_lists" hidden:"yes" default:"4" help:"Requests for labels, series and metadata that upstreams are asked to answer at once, so that they leave them time for samples; others wait as queries do. 0 sets no limit."`
	MaxQueue         int            `yaml:"max_queue" hidden:"yes" default:"1000" help:"Queries that may wait for one of query.max-concurrency to end, and as many remote reads; others are refused at once with 503. 0 lets none wait."`
	MaxQueueTime     model.Duration `yaml:"max_queue_time" hidden:"yes" default:"10s" least:"1ms" help:"Longest that a query or remote read waits for another to end; then it is refused with 503."`
	TenantHeader     string         `yaml:"tenant_header" as:"NAME" help:"Header that says whose a request is, such as X-Scope-OrgID: those who wait take turns. By default it is the remote address."`
	CustomAggregates bool           `yaml:"custom_aggregates" default:"false" help:"Let resample requests define aggregates of their own, as the configuration file does under aggregates."`
}

// memorySettings bound the memory of the process.
type memorySettings struct {
	Limit ByteSize `yaml:"limit" as:"SIZE" help:"Memory of the process, such as 8GiB, of which the cache, fetches, queries and answers take what they need; what finds none left waits briefly and is then refused. 0 sets no limit. By default 90 % of the memory that the program may use."`
}

// CacheSettings bound what the cache keeps.
type CacheSettings struct {
	HostBytes        ByteSize       `yaml:"host_bytes" as:"SIZE" help:"Most memory for cached samples, such as 4GiB; 0 keeps none. By default a quarter of memory.limit."`
	DecodedBytes     ByteSize       `yaml:"decoded_bytes" as:"SIZE" help:"How much of cache.host-bytes may hold decoded samples of series, those that are asked for again and again before others; 0 keeps none decoded. By default half of it."`
	ResultsBytes     ByteSize       `yaml:"results_bytes" as:"SIZE" reload:"at once" help:"Most memory for results of aggregations, which spare a dashboard that is looked at again all but its newest steps; 0 keeps none. By default 64MiB, or an eighth of memory.limit if that is less."`
	Path             string         `yaml:"path" as:"DIRECTORY" help:"Directory where cached samples survive a restart. It belongs to one promwarp alone."`
	DiskBytes        ByteSize       `yaml:"disk_bytes" default:"10GiB" least:"1" help:"Most bytes of files in cache.path."`
	Fresh            model.Duration `yaml:"fresh" default:"10m" help:"How long samples may still arrive or change: what is younger is not kept for long."`
	Recheck          model.Duration `yaml:"recheck" default:"5m" help:"How long samples younger than cache.fresh, of series that have newer ones, are answered from what was fetched; then they are fetched again. Not where there is an out-of-order window. 0 fetches all of them for every query."`
	OutOfOrderWindow model.Duration `yaml:"out_of_order_window" default:"0s" help:"The upstream's out_of_order_time_window; it counts on top of cache.fresh."`
	MaxAge           model.Duration `yaml:"max_age" default:"1d" help:"How long older samples are answered from what was fetched; then they are fetched again, which shows deletions and backfills. 0 means without end."`
	PrefetchRequests int            `yaml:"prefetch_requests" default:"1" help:"Most requests a second that fetch the newest samples of selectors that keep being asked for, before they are asked for again; 0 fetches nothing ahead."`
	PrefetchBytes    ByteSize       `yaml:"prefetch_bytes" hidden:"yes" default:"8MiB" help:"Most bytes a second that requests ahead of queries may bring; 0 sets no limit."`
}

// GPUSettings say whether and how GPUs are used.
type GPUSettings struct {
	Mode           string   `yaml:"mode" default:"auto" of:"auto, off, require" help:"Whether to use NVIDIA GPUs: auto uses those that there are, require does not start without, off uses none."`
	Devices        List     `yaml:"devices" as:"0,1" help:"The GPUs to use, by the numbers that promwarp devices shows; by default all."`
	MemoryFraction float64  `yaml:"memory_fraction" default:"0.8" least:"0.001" most:"1" help:"The most to take of a GPU's memory that is free at start; it is taken as it is needed."`
	MemoryBytes    ByteSize `yaml:"memory_bytes" hidden:"yes" default:"0" help:"Most memory to take of each GPU, in bytes or with a unit; 0 leaves it to gpu.memory-fraction."`
	Library        string   `yaml:"library" hidden:"yes" default:"libcuda.so.1" help:"The CUDA driver's library."`
}

// grpcSettings are those of a leaf of Thanos.
type grpcSettings struct {
	ListenAddress string `yaml:"listen_address" as:"ADDRESS" help:"Address on which a Thanos Querier is answered over gRPC, as a leaf that evaluates queries and gives series, with TLS as web.config.file says. Empty answers none."`
}

// webSettings are those of the HTTP server.
type webSettings struct {
	ListenAddress      List            `yaml:"listen_address" default:"127.0.0.1:9201" help:"Address to listen on; may be repeated."`
	Config             webFileSettings `yaml:"config"`
	EnablePprof        bool            `yaml:"enable_pprof" hidden:"yes" default:"false" reload:"at once" help:"Serve profiles under /debug/pprof."`
	EnableLifecycle    bool            `yaml:"enable_lifecycle" default:"false" reload:"at once" help:"Serve /-/reload, which reads the configuration again, as SIGHUP does."`
	EnableAdminAPI     bool            `yaml:"enable_admin_api" default:"false" reload:"at once" help:"Serve /api/v1/admin/cache/drop, which has the cache forget samples, and /api/v1/admin/queries/cancel."`
	ReadyNeedsUpstream bool            `yaml:"ready_needs_upstream" default:"false" reload:"at once" help:"Have /-/ready answer 503 while an upstream that queries need cannot be reached, for a load balancer that has others to send them to. Without it only until that was read once."`
	ShutdownTimeout    model.Duration  `yaml:"shutdown_timeout" hidden:"yes" default:"30s" help:"How long to wait on SIGTERM for requests under way."`
	CORS               corsSettings    `yaml:"cors" reload:"at once"`
	UpstreamURL        string          `yaml:"upstream_url" as:"URL" reload:"at once" help:"Base URL at which browsers reach the upstream, where /graph and other links to Prometheus's pages lead. By default the one that promwarp reaches it at."`
	ReadTimeout        model.Duration  `yaml:"read_timeout" hidden:"yes" default:"5m" least:"1ms" reload:"at once for bodies, else restart" help:"Longest that a request may take to arrive, and that a connection may stay open without one."`
	WriteTimeout       model.Duration  `yaml:"write_timeout" hidden:"yes" default:"1m" least:"1ms" reload:"at once" help:"Longest that a client may read nothing of its answer; then its connection is closed."`
	MaxConnections     int             `yaml:"max_connections" hidden:"yes" default:"512" help:"Connections that may be open at once, of all addresses together; others wait."`
	MaxHeaderBytes     ByteSize        `yaml:"max_header_bytes" hidden:"yes" default:"256KiB" least:"4KiB" most:"1GiB" help:"Most bytes of a request's line and header."`
	MaxBodyBytes       ByteSize        `yaml:"max_body_bytes" hidden:"yes" default:"10MiB" least:"1" reload:"at once" help:"Most bytes of a request's body."`
}

// webFileSettings name the file that turns on TLS or authentication.
type webFileSettings struct {
	File string `yaml:"file" as:"FILE" help:"File that turns on TLS or authentication: https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md"`
}

// corsSettings say what pages of other origins may ask.
type corsSettings struct {
	Origin string `yaml:"origin" default:".*" help:"Regular expression, matched whole, of the origins of browser requests to allow."`
}

// storageSettings have the place in the file that Prometheus's names of flags give them.
type storageSettings struct {
	Remote remoteSettings `yaml:"remote"`
}

// remoteSettings are those of the remote read that is answered, as Prometheus has them.
type remoteSettings struct {
	ReadSampleLimit     int      `yaml:"read_sample_limit" default:"50000000" help:"Most samples of a query of remote read that is answered with samples; 0 sets no limit."`
	ReadConcurrentLimit int      `yaml:"read_concurrent_limit" default:"10" help:"Requests of remote read that are answered at once; 0 sets no limit."`
	ReadMaxBytesInFrame ByteSize `yaml:"read_max_bytes_in_frame" hidden:"yes" default:"1MiB" least:"1" help:"Size beyond which a series is continued in another frame of a streamed answer."`
	ReadMaxQueries      int      `yaml:"read_max_queries" hidden:"yes" default:"1000" help:"Most queries of one request of remote read; 0 sets no limit."`
}

// readerSettings say what the paths below /api/v1/read/ cannot know of their readers.
type readerSettings struct {
	Lookback model.Duration `yaml:"reader_lookback" default:"5m" least:"1ms" help:"The --query.lookback-delta of those who read /api/v1/read/thin and /api/v1/read/aggregate, which they do not say."`
}

// compareSettings say which queries the upstream is asked as well.
type compareSettings struct {
	Fraction float64        `yaml:"fraction" default:"0" most:"1" help:"Part of all queries, 0 to 1, that promwarp and the upstream are asked again, one at a time, when their samples are ten minutes old; where the answers differ, the log and the metrics say so."`
	Timeout  model.Duration `yaml:"timeout" hidden:"yes" default:"1m" least:"1ms" help:"Longest that comparing one query may take."`
}

// logSettings are those of the program's log.
type logSettings struct {
	Level       string         `yaml:"level" default:"info" of:"debug, info, warn, error" reload:"restart" help:"Least severe messages to log: debug, info, warn or error."`
	Format      string         `yaml:"format" default:"logfmt" of:"logfmt, json" reload:"restart" help:"Form of the log: logfmt or json."`
	Queries     bool           `yaml:"queries" default:"false" only:"serve" help:"Log each PromQL query: its number, who evaluated it, how long that took, and the samples."`
	SlowQueries model.Duration `yaml:"slow_queries" default:"0s" only:"serve" help:"Log queries whose evaluation takes so long or longer, with their plans; 0 logs none."`
}

// Values of GPUSettings.Mode.
const (
	GPUAuto    = "auto"    // all that can be used
	GPUOff     = "off"     // none
	GPURequire = "require" // all that are named, or promwarp does not start
)

// unset is a size that follows from the limit of the process.
const unset ByteSize = math.MinInt64

// Default are what holds where neither the command line nor the file says otherwise. They name
// nothing to read from.
func Default() Settings {
	var s Settings
	for _, row := range table {
		if text := row.Tag.Get("default"); text != "" {
			_ = row.set(&s, text) // which a test has done before
		}
	}
	for _, size := range s.followLimit() {
		*size = unset
	}
	return s
}

// followLimit are the sizes that follow from the limit of the process, that first.
func (s *Settings) followLimit() []*ByteSize {
	return []*ByteSize{&s.Memory.Limit, &s.Cache.HostBytes, &s.Query.MaxMemory, &s.Cache.DecodedBytes, &s.Cache.ResultsBytes}
}

const (
	unknownShare = 1 << 30  // a share of the memory where it is not known how much there is
	mostResults  = 64 << 20 // memory for results of aggregations where no setting says how much
	leastLimit   = 64 << 20 // the least memory that promwarp is of use with
)

// Divide sets what follows from the limit of the process and was not given. The limit is nine tenths of
// the memory that the program may use. The cache and each query may have a quarter of it, results of
// aggregations an eighth, up to mostResults; decoded columns half of what the cache has.
func (s *Settings) Divide() {
	limit := ByteSize(0)
	if m := footprint.Usable("/"); m < math.MaxInt64 {
		limit = ByteSize(m / 10 * 9)
	}
	if s.Memory.Limit != unset {
		limit = s.Memory.Limit
	}
	share := limit / 4
	if share <= 0 {
		share = unknownShare
	}
	host := s.Cache.HostBytes
	if host == unset {
		host = share
	}
	for i, size := range s.followLimit() {
		if *size == unset {
			*size = []ByteSize{limit, share, share, host / 2, min(mostResults, share/2)}[i]
		}
	}
}

// Validate names all that is wrong.
func (s *Settings) Validate() error {
	_, err := s.Sources()
	return errors.Join(err, s.ValidateLimits())
}

// ValidateLimits checks everything but the source.
func (s *Settings) ValidateLimits() error {
	var all []error
	for _, row := range table {
		all = append(all, row.check(s))
	}
	_, library := s.Library()
	_, origin := s.Web.OriginRegexp()
	_, pages := s.Web.PagesURL()
	_, devices := s.GPU.Ordinals()
	_, features := upstream.ParseFeatures(s.EnableFeature.String())
	if features != nil && s.EnableFeature.String() != followed {
		all = append(all, fmt.Errorf("enable_feature: %w; %s takes the upstream's, none is none", features, followed))
	}
	kept, header := s.Cache.HostBytes+s.Cache.ResultsBytes, s.Query.TenantHeader
	for _, rule := range []struct {
		broken bool
		text   string
	}{
		{s.Memory.Limit > 0 && s.Memory.Limit < leastLimit, fmt.Sprintf("memory.limit must be at least %s; 0 sets no limit", ByteSize(leastLimit))},
		{s.Memory.Limit >= leastLimit && kept > s.Memory.Limit/4*3, fmt.Sprintf("cache.host_bytes and cache.results_bytes come to %s, which is more than three quarters of memory.limit, %s: raise memory.limit, or lower them", kept, s.Memory.Limit)},
		{s.Cache.DecodedBytes > s.Cache.HostBytes, "cache.decoded_bytes must not be more than cache.host_bytes, of which it is a part; the default is half of it"},
		{s.Cache.Path != "" && s.Cache.HostBytes == 0, "cache.path takes cache.host_bytes above 0: what is read from disk is kept in memory, too"},
		{header != "" && (!httpguts.ValidHeaderFieldName(header) || strings.EqualFold(header, "Host")), fmt.Sprintf("query.tenant_header: no request can have a header %q; write one such as X-Scope-OrgID", header)},
		{len(s.Web.ListenAddress) == 0, "web.listen_address must name at least one address, such as 127.0.0.1:9201"},
		{s.Web.MaxConnections < max(1, len(s.Web.ListenAddress)), "web.max_connections must be at least 1 for each of web.listen_address; the default is 512"},
		{s.GPU.Mode != GPUOff && s.GPU.Library == "", "gpu.library must name the CUDA driver's library; the default is libcuda.so.1"},
	} {
		if rule.broken {
			all = append(all, errors.New(rule.text))
		}
	}
	return errors.Join(append(all, library, origin, pages, devices)...)
}
