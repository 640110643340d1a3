package upstream

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// Features is the set of Prometheus's features that change what a query is answered.
type Features uint32

// The features, by the bit of each in Features.
const (
	ExperimentalFunctions Features = 1 << iota
	DelayedNameRemoval
	ExtendedRangeSelectors
	FillModifiers
	PerStepStats
	UseStartTimestamps
	TypeAndUnitLabels
)

// feature is one of Prometheus's features.
type feature struct {
	bit  Features
	name string // of Prometheus's --enable-feature
	// category and entry name it in /api/v1/features; empty if it is not there.
	category, entry string
}

var featureTable = []feature{
	{ExperimentalFunctions, "promql-experimental-functions", "promql_functions", "mad_over_time"},
	{DelayedNameRemoval, "promql-delayed-name-removal", "promql", "delayed_name_removal"},
	{ExtendedRangeSelectors, "promql-extended-range-selectors", "promql", "anchored"},
	{FillModifiers, "promql-binop-fill-modifiers", "promql", "fill"},
	{PerStepStats, "promql-per-step-stats", "promql", "per_step_stats"},
	{UseStartTimestamps, "use-start-timestamps", "", ""},
	{TypeAndUnitLabels, "type-and-unit-labels", "promql", "type_and_unit_labels"},
}

// otherFeatures are those of Prometheus that change nothing about answers: they are about
// scraping, storing, rules, alerts or its pages, or are always on by now.
var otherFeatures = []string{
	"exemplar-storage", "memory-snapshot-on-shutdown", "extra-scrape-metrics", "metadata-wal-records", "auto-reload-config",
	"concurrent-rule-eval", "promql-duration-expr", "native-histograms", "ooo-native-histograms", "created-timestamp-zero-ingestion",
	"xor2-encoding", "histograms-st-encoding", "st-synthesis", "st-storage", "delayed-compaction", "old-ui", "otlp-deltatocumulative",
	"otlp-native-delta-ingestion", "openmetrics2", "zstd-scrape", "use-uncached-io", "fast-startup", "search-api",
	"promql-at-modifier", "promql-negative-offset", "remote-write-receiver", "expand-external-labels", "new-service-discovery-manager",
	"no-default-scrape-port", "agent", "utf8-names", "otlp-write-receiver", "no-scrape-default-port", "auto-gomemlimit", "auto-gomaxprocs",
}

// AllFeatures is every feature that changes answers.
const AllFeatures = ExperimentalFunctions | DelayedNameRemoval | ExtendedRangeSelectors | FillModifiers | PerStepStats |
	UseStartTimestamps | TypeAndUnitLabels

// Has reports whether all of f are on.
func (s Features) Has(f Features) bool { return s&f == f }

// String lists the features by Prometheus's names.
func (s Features) String() string {
	var names []string
	for _, f := range featureTable {
		if s.Has(f.bit) {
			names = append(names, f.name)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ",")
}

// ParseFeatures reads a list as Prometheus's --enable-feature takes it: names with commas
// between them. "none" and an empty list are none.
func ParseFeatures(list string) (Features, error) {
	var s Features
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		i := slices.IndexFunc(featureTable, func(f feature) bool { return f.name == name })
		switch {
		case i >= 0:
			s |= featureTable[i].bit
		case name != "" && name != "none" && !slices.Contains(otherFeatures, name):
			return 0, fmt.Errorf("unknown feature %q: those of Prometheus that change answers are %s", name, AllFeatures)
		}
	}
	return s, nil
}

// knownFeatures are the features in a list of any Prometheus, later ones included.
func knownFeatures(list string) (s Features) {
	for name := range strings.SplitSeq(list, ",") {
		f, _ := ParseFeatures(name) // what is not known here changes nothing here
		s |= f
	}
	return s
}

// featuresIn are the features that an answer of /api/v1/features says are on.
func featuresIn(registry map[string]map[string]bool) (s Features) {
	for _, f := range featureTable {
		if f.entry != "" && registry[f.category][f.entry] {
			s |= f.bit
		}
	}
	return s
}

// Parser returns the options of a parser of PromQL with these features.
func (s Features) Parser() parser.Options {
	return parser.Options{
		ExperimentalDurationExpr:     true, // always, in this version of Prometheus
		EnableExperimentalFunctions:  s.Has(ExperimentalFunctions),
		EnableExtendedRangeSelectors: s.Has(ExtendedRangeSelectors),
		EnableBinopFillModifiers:     s.Has(FillModifiers),
	}
}

// Engine sets the features in the options of Prometheus's engine.
func (s Features) Engine(o *promql.EngineOpts) {
	o.EnableAtModifier, o.EnableNegativeOffset = true, true // always, in this version of Prometheus
	o.EnablePerStepStats = s.Has(PerStepStats)
	o.EnableDelayedNameRemoval = s.Has(DelayedNameRemoval)
	o.UseStartTimestamps = s.Has(UseStartTimestamps)
	o.EnableTypeAndUnitLabels = s.Has(TypeAndUnitLabels)
}
