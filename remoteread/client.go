// Package remoteread fetches what a selector matches from a
// Prometheus-compatible store, over Prometheus's remote-read protocol.
//
// Stores that stream chunks are read frame by frame, and the encoded chunks go
// into a selection as they came; answers of samples, which are preferred where few are
// expected, are encoded into chunks on arrival. A long range is fetched in several pieces at once.
package remoteread

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	commonconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/version"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/internal/instrument"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/remoteread/answer"
	"github.com/promwarp/promwarp/remoteread/stores"
	"github.com/promwarp/promwarp/remoteread/urltext"
)

// Flags of the program that set the options errors may ask to raise.
const (
	FlagMaxBytes      = "upstream.max-bytes"       // Options.MaxBytes
	FlagMaxFrameBytes = "upstream.max-frame-bytes" // Options.MaxFrameBytes
	// FlagExternalLabels says where Options.External knows them from.
	FlagExternalLabels = "upstream.external-labels"
)

// The defaults of Options.
//
// A piece of 6 h is a multiple of 2 h, at which Prometheus cuts its blocks and
// head chunks, so no chunk of a Prometheus lies in two pieces and none is
// encoded again to fit. A day makes four pieces, one for each that may
// always be in flight, and a piece is long enough that labels, sent once for each, weigh
// little beside chunks. Of long ranges pieces are longer, see growPiece.
const (
	DefaultPiece         = 6 * time.Hour
	DefaultMaxFrameBytes = 64 << 20 // bytes
	DefaultMaxBytes      = 4 << 30  // bytes
	DefaultRetries       = 3
	DefaultMinBackoff    = 100 * time.Millisecond

	defaultRemoteTimeout = time.Minute // Prometheus's default of remote_timeout
)

// leastConcurrency and mostConcurrency enclose DefaultConcurrency. A Prometheus answers ten remote
// reads at once by default, of all clients together; the others wait.
const leastConcurrency, mostConcurrency = 4, 8

// DefaultConcurrency is how many requests are in flight at once where nothing else is said: one for
// two of the cores that promwarp has, which it keeps busy with what comes, within bounds.
func DefaultConcurrency() int {
	return min(max(runtime.GOMAXPROCS(0)/2, leastConcurrency), mostConcurrency)
}

// Options bound a client. A zero field means its default.
type Options struct {
	// Piece is the length of the pieces that a range is split into; they start
	// at multiples of it. Default DefaultPiece. A range of very many pieces is
	// split into pieces of a multiple of it.
	Piece time.Duration
	// Concurrency is how many requests the client has in flight at once, over
	// all its fetches together. Default DefaultConcurrency().
	Concurrency int
	// MaxFrameBytes is the size, in bytes, of the largest frame of a streamed
	// answer and of the largest answer of samples, decompressed, that is
	// accepted. For frames the chunked_read_limit of the configuration holds as
	// well. Default DefaultMaxFrameBytes.
	MaxFrameBytes int64
	// MaxBytes is the most bytes, chunks and labels, that one fetch may bring.
	// Past it the fetch fails with selection.ErrTooLarge. What is held may be
	// one frame for each request in flight more. Default DefaultMaxBytes.
	MaxBytes int64
	// Memory is the process's memory: a fetch that finds none left fails with an error
	// of package memory. nil is without limit.
	Memory *memory.Pool
	// Retries is how many times a failed request is sent again; negative means
	// never. Default DefaultRetries.
	Retries int
	// MinBackoff is the wait before the first retry. It doubles for each
	// further one; half of it is random. Default DefaultMinBackoff.
	MinBackoff time.Duration
	// External tells which labels the store adds to its series; they are taken off, or
	// with KeepExternal matched as if they were stored. nil leaves series as they come.
	External     External
	KeepExternal bool
	// ReplicaLabels are external labels that are taken off nevertheless.
	ReplicaLabels []string
	// Logger gets a warning for each retry. Default none.
	Logger *slog.Logger
	// Registerer gets the client's metrics. Clients of different names may share one; their
	// metrics differ in the label upstream, which is the client's name.
	Registerer prometheus.Registerer
}

// withDefaults fills in defaults.
func (o Options) withDefaults() Options {
	o.Piece = cmp.Or(o.Piece, DefaultPiece)
	o.Concurrency = cmp.Or(max(o.Concurrency, 0), DefaultConcurrency())
	o.MaxFrameBytes = cmp.Or(o.MaxFrameBytes, DefaultMaxFrameBytes)
	o.MaxBytes = cmp.Or(o.MaxBytes, DefaultMaxBytes)
	o.Retries = max(cmp.Or(o.Retries, DefaultRetries), 0)
	o.MinBackoff = cmp.Or(o.MinBackoff, DefaultMinBackoff)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// Client fetches from one store. It is safe for concurrent use.
type Client struct {
	name     string
	url      string        // with credentials, for requests
	store    *stores.Store // that is asked in place of url; or nil
	upstream string        // without, for messages
	http     *http.Client
	reach    reach
	secrets  *secrets
	required model.LabelSet

	timeout       time.Duration
	piece         int64 // ms
	maxFrameSetBy string
	retries       int
	minBackoff    time.Duration
	memory        *memory.Pool // or nil
	lanes         lanes
	concurrency   int // most requests in flight
	log           *slog.Logger
	metrics       *metrics
	answers       answer.Reader // with the limits of answers
	chunksAlone   atomic.Bool   // see PreferSamples
	external      External      // or nil
	keepExternal  bool
	replicaLabels []string
	witness       atomic.Pointer[labels.Labels] // see answer.View; nil for none
}

// NewClient returns a client for an entry of remote_read in Prometheus's
// configuration format.
//
// read_recent has no effect: it makes a Prometheus leave to its own storage
// what that covers, and promwarp has none beside the store. Nor has
// filter_external_labels, which is about the reader's own; those of the store are
// what Options.External is for.
func NewClient(cfg *config.RemoteReadConfig, o Options) (*Client, error) {
	o = o.withDefaults()
	if cfg == nil || cfg.URL == nil || cfg.URL.URL == nil {
		return nil, errors.New("remote read: no URL is configured")
	}
	u := cfg.URL.URL
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("remote read: URL %q: write an http or https URL such as http://prometheus:9090/api/v1/read", urltext.Of(u))
	}
	if err := checkRequest(cfg); err != nil {
		return nil, fmt.Errorf("remote read from %s: HTTP client configuration: %w; correct it, or let promwarp's user read the file", urltext.Of(u), urltext.Err(err))
	}
	h, err := commonconfig.NewClientFromConfig(cfg.HTTPClientConfig, "promwarp_remote_read", commonconfig.WithDialContextFunc(dialAhead), commonconfig.WithUserAgent(version.ComponentUserAgent("promwarp")))
	if err != nil {
		return nil, fmt.Errorf("remote read from %s: HTTP client configuration: %w", urltext.Of(u), urltext.Err(err))
	}
	if cfg.HTTPClientConfig.FollowRedirects {
		h.CheckRedirect = CheckRedirect
	}
	foreign, err := commonconfig.NewRoundTripperFromConfig(withoutCredentials(cfg.HTTPClientConfig), "promwarp_remote_read_redirected")
	if err != nil {
		return nil, fmt.Errorf("remote read from %s: HTTP client configuration: %w", urltext.Of(u), urltext.Err(err))
	}
	c := commonClient(cmp.Or(cfg.Name, urltext.Of(u)), time.Duration(cfg.RemoteTimeout), o)
	c.url, c.upstream, c.http = u.String(), urltext.Of(u), h
	c.secrets, c.required = secretsOf(cfg), cfg.RequiredMatchers
	c.external, c.keepExternal, c.replicaLabels = o.External, o.KeepExternal, o.ReplicaLabels
	h.Transport = &headers{next: h.Transport, foreign: foreign, set: cfg.Headers, reach: &c.reach}
	if l := cfg.ChunkedReadLimit; l > 0 && l < uint64(c.answers.MaxFrame) {
		c.answers.MaxFrame, c.maxFrameSetBy = int64(l), "chunked_read_limit of the entry in remote_read"
	}
	return c, nil
}

// commonClient returns a client with what does not depend on how a store is asked. o has its defaults.
func commonClient(name string, timeout time.Duration, o Options) *Client {
	if timeout <= 0 {
		timeout = defaultRemoteTimeout
	}
	return &Client{
		name:          name,
		timeout:       timeout,
		piece:         o.Piece.Milliseconds(),
		maxFrameSetBy: "--" + FlagMaxFrameBytes,
		answers:       answer.Reader{MaxFrame: o.MaxFrameBytes, MaxAnswer: o.MaxFrameBytes, MaxBytes: o.MaxBytes},
		memory:        o.Memory,
		retries:       o.Retries,
		minBackoff:    o.MinBackoff,
		lanes:         newLanes(o.Concurrency),
		concurrency:   o.Concurrency,
		log:           o.Logger,
		metrics:       newMetrics(o.Registerer, name),
	}
}

// PreferSamples says whether samples may be asked for instead of chunks where that is
// less. They come without start timestamps, so not where those count.
func (c *Client) PreferSamples(may bool) { c.chunksAlone.Store(!may) }

// SetExternal sets Options.External, for one that needs the client to be made. There must
// have been no fetch.
func (c *Client) SetExternal(e External) { c.external = e }

// HTTPClient returns the HTTP client that requests go through, with the
// configured authentication, TLS and headers. It is for other requests to the
// same store.
func (c *Client) HTTPClient() *http.Client { return c.http }

// CloseIdle closes connections that are not in use.
func (c *Client) CloseIdle() { c.http.CloseIdleConnections() }

// metrics are those of one client.
type metrics struct {
	requests *prometheus.CounterVec // by outcome
	retries  prometheus.Counter
	bytes    prometheus.Counter
	series   prometheus.Counter
	seconds  prometheus.Observer
	inFlight prometheus.Gauge
}

func newMetrics(r prometheus.Registerer, upstream string) *metrics {
	f := instrument.With(prometheus.WrapRegistererWith(prometheus.Labels{"upstream": upstream}, r))
	const prefix = "promwarp_remote_read_"
	return &metrics{
		requests: f.Counters(prefix+"requests_total", "Remote-read requests sent to the store, retries included, by outcome.", "outcome"),
		retries:  f.Counter(prefix+"retries_total", "Remote-read requests that were sent again after a failure."),
		bytes:    f.Counter(prefix+"received_bytes_total", "Bytes of answer bodies received from the store, as they came over the network."),
		series:   f.Counter(prefix+"series_total", "Series received from the store; one in several answers counts in each."),
		inFlight: f.Gauge(prefix+"requests_in_flight", "Remote-read requests whose answer has not arrived in full."),
		seconds: f.NewHistogram(prometheus.HistogramOpts{
			Name:                            prefix + "request_duration_seconds",
			Help:                            "Time from sending a remote-read request to the end of its answer.",
			Buckets:                         []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
			NativeHistogramBucketFactor:     1.1,
			NativeHistogramMaxBucketNumber:  100,
			NativeHistogramMinResetDuration: time.Hour,
		}),
	}
}
