package config

import (
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/remoteread/upstream"
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

// Engine returns what an engine is made from before upstreams of which f is known.
func (s *Settings) Engine(f upstream.Facts) EngineSettings {
	query := s.Query
	query.QueueSettings, query.CustomAggregates = QueueSettings{}, false // the engine does not depend on them
	return EngineSettings{
		querySettings: query, DecodedBytes: int64(s.Cache.Decoded()), ResultsBytes: int64(s.Cache.ResultsBytes),
		Lookback: s.Query.LookbackDelta.or(f.Lookback, defaultLookback),
		Interval: s.Query.EvaluationInterval.or(f.EvaluationInterval, upstream.DefaultEvaluationInterval),
		Features: s.EnableFeature.or(f.Features),
	}
}

// defaultLookback is Prometheus's default of --query.lookback-delta.
const defaultLookback = 5 * time.Minute
