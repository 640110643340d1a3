package config

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"time"

	"github.com/grafana/regexp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/internal/queue"
	"github.com/promwarp/promwarp/planner"
	"github.com/promwarp/promwarp/remoteread/upstream"
	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/resample/custom"
)

// EngineSettings are what an engine is made from.
type EngineSettings struct {
	querySettings
	DecodedBytes, ResultsBytes int64
	Lookback, Interval         time.Duration
	Features                   upstream.Features
}

// Parser returns a parser of PromQL with the features that are on.
func (e *EngineSettings) Parser() parser.Parser { return parser.NewParser(e.Features.Parser()) }

// Shown returns flags with what settings that follow the upstream's came to.
func (e *EngineSettings) Shown(flags map[string]string) map[string]string {
	flags["query.lookback-delta"] = model.Duration(e.Lookback).String()
	flags["query.evaluation-interval"] = model.Duration(e.Interval).String()
	flags["enable-feature"] = e.Features.String()
	if e.Features == 0 {
		flags["enable-feature"] = "" // as Prometheus shows it
	}
	return flags
}

// Limits bound the text of queries.
func (s *querySettings) Limits() planner.Limits {
	return planner.Limits{Depth: s.MaxDepth, Length: s.MaxLength, RegexpSize: s.MaxRegexpSize, Selectors: s.MaxSelectors, Items: s.MaxItems}
}

// defaultLookback is Prometheus's default of --query.lookback-delta.
const defaultLookback = 5 * time.Minute

// lookback is the default, or as a Querier has it the time between samples of a lower resolution.
func (s *Settings) lookback() time.Duration {
	d := defaultLookback
	for _, one := range s.Stores {
		d = max(d, time.Duration(one.MaxResolution))
	}
	return d
}

// Engine returns what an engine is made from before upstreams of which f is known.
func (s *Settings) Engine(f upstream.Facts) EngineSettings {
	query := s.Query
	query.QueueSettings = QueueSettings{} // the engine does not depend on them
	features := f.Features
	if given := s.EnableFeature.String(); given != followed {
		features, _ = upstream.ParseFeatures(given) // ValidateLimits has checked it
	}
	return EngineSettings{
		querySettings: query, DecodedBytes: int64(s.Cache.DecodedBytes), ResultsBytes: int64(s.Cache.ResultsBytes),
		Lookback: s.Query.LookbackDelta.or(f.Lookback, s.lookback()),
		Interval: s.Query.EvaluationInterval.or(f.EvaluationInterval, upstream.DefaultEvaluationInterval),
		Features: features,
	}
}

// QueueLimits are those of a queue with that many slots; 0 sets no limit. A quarter of them is kept
// from a client that has all others.
func (s *QueueSettings) QueueLimits(slots int) queue.Limits {
	return queue.Limits{Slots: slots, Spare: slots / 4, MaxWaiting: s.MaxQueue, MaxWait: time.Duration(s.MaxQueueTime)}
}

// Library is the aggregates that resample requests may name: the built-in ones, and those of the
// configuration file.
func (s *Settings) Library() (l aggregate.Library, err error) {
	var all []error
	for i := range s.Aggregates {
		with, err := custom.AddTo(l, s.Aggregates[i:i+1])
		if err != nil {
			all = append(all, fmt.Errorf("aggregates: entry %d: %w", i+1, err))
			continue
		}
		l = with
	}
	return l, errors.Join(all...)
}

// OriginRegexp is the regular expression that a browser's origin must match.
func (s *webSettings) OriginRegexp() (*regexp.Regexp, error) {
	re, err := regexp.Compile("^(?s:" + s.CORS.Origin + ")$")
	if err != nil {
		return nil, fmt.Errorf("web.cors.origin: %w", err)
	}
	return re, nil
}

// PagesURL is the base URL at which browsers reach the upstream's pages, nil when it is not set.
func (s *webSettings) PagesURL() (*url.URL, error) {
	if s.UpstreamURL == "" {
		return nil, nil
	}
	return parseBase("web.upstream_url", s.UpstreamURL)
}

// NewLogger returns the program's log, as in Prometheus. A nil w is standard error.
func NewLogger(s logSettings, w io.Writer) (*slog.Logger, error) {
	c := promslog.Config{Level: promslog.NewLevel(), Format: promslog.NewFormat(), Writer: w}
	if err := errors.Join(c.Level.Set(s.Level), c.Format.Set(s.Format)); err != nil {
		return nil, Usagef("log: %w", err)
	}
	return promslog.New(&c), nil
}

// UsageError marks an error as one of the command line or the configuration.
type UsageError struct{ error }

// Unwrap returns the error itself.
func (e UsageError) Unwrap() error { return e.error }

// Usagef returns a UsageError.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// Usage marks err as one of the command line or the configuration.
func Usage(err error) error { return UsageError{err} }
