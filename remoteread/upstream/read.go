package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v2"

	"github.com/promwarp/promwarp/remoteread/urltext"
)

const (
	// readTimeout is how long one request may take.
	readTimeout = 10 * time.Second
	// maxAnswer is the most bytes of an answer. A configuration has all scrape
	// configurations in it.
	maxAnswer = 64 << 20
)

// noAPIError is for a server that does not have what was asked for, or does not give it
// to promwarp. Asking again does not help.
type noAPIError struct{ why string }

func (e *noAPIError) Error() string { return e.why }

// source asks a server's HTTP API.
type source struct {
	base   *url.URL // without /api/v1
	client *http.Client
}

// get asks for a path below /api/v1 and returns the body of the answer.
func (s *source) get(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readTimeout, fmt.Errorf("no answer within %s", readTimeout))
	defer cancel()
	u := s.base.JoinPath("/api/v1", path)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, urltext.Err(err)
	}
	shown := urltext.Of(u)
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", shown, urltext.Err(err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", shown, err)
	case len(body) > maxAnswer:
		return nil, &noAPIError{fmt.Sprintf("%s answers with more than %d bytes", shown, maxAnswer)}
	case resp.StatusCode >= 500 && resp.StatusCode != http.StatusNotImplemented, resp.StatusCode == http.StatusTooManyRequests:
		return nil, fmt.Errorf("%s answers with status %d", shown, resp.StatusCode)
	case resp.StatusCode != http.StatusOK:
		return nil, &noAPIError{fmt.Sprintf("%s answers with status %d", shown, resp.StatusCode)}
	}
	return body, nil
}

// decode reads the data of an answer of Prometheus's API.
func decode(path string, body []byte, data any) error {
	answer := struct {
		Status string `json:"status"`
		Data   any    `json:"data"`
	}{Data: data}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Status != "success" {
		return &noAPIError{"/api/v1" + path + " does not answer as a Prometheus does"}
	}
	return nil
}

// configured is what a server's configuration says.
type configured struct {
	external labels.Labels
	interval time.Duration // 0 if it says nothing of it
}

const pathConfig = "/status/config"

// parseConfig reads an answer of /api/v1/status/config.
func parseConfig(body []byte) (c configured, err error) {
	var shown struct {
		YAML string `json:"yaml"`
	}
	if err := decode(pathConfig, body, &shown); err != nil {
		return c, err
	}
	var global struct {
		Global struct {
			ExternalLabels     map[string]string `yaml:"external_labels"`
			EvaluationInterval model.Duration    `yaml:"evaluation_interval"`
		} `yaml:"global"`
	}
	if err := yaml.Unmarshal([]byte(shown.YAML), &global); err != nil {
		return c, &noAPIError{"/api/v1" + pathConfig + " does not show the configuration of a Prometheus"}
	}
	c.external = labels.FromMap(global.Global.ExternalLabels)
	c.interval = time.Duration(global.Global.EvaluationInterval)
	return c, nil
}

// program is what a server was started as.
type program struct {
	features      Features
	featuresKnown bool
	lookback      time.Duration
	version       string
}

// readProgram reads what a server was started as. It fails only where asking again may
// help.
func (s *source) readProgram(ctx context.Context) (p program, err error) {
	flags := map[string]string{}
	if err := s.into(ctx, "/status/flags", &flags); err != nil {
		return p, err
	}
	if list, ok := flags["enable-feature"]; ok {
		p.features, p.featuresKnown = knownFeatures(list), true
	}
	if d, err := model.ParseDuration(flags["query.lookback-delta"]); err == nil {
		p.lookback = time.Duration(d)
	}
	// A Prometheus of before 3.8 has no such list, so nothing is said of one that lacks.
	registry := map[string]map[string]bool{}
	if err := s.into(ctx, "/features", &registry); err != nil {
		return p, err
	}
	if len(registry["promql"]) > 0 {
		for _, f := range featureTable {
			if f.entry != "" && registry[f.category][f.entry] {
				p.features |= f.bit
			}
		}
		p.featuresKnown = true
	}
	var build struct {
		Version string `json:"version"`
	}
	err = s.into(ctx, "/status/buildinfo", &build)
	p.version = build.Version
	return p, err
}

// into asks for a path and decodes the answer's data, or leaves it where the server has none.
func (s *source) into(ctx context.Context, path string, data any) error {
	body, err := s.get(ctx, path)
	if err == nil {
		err = decode(path, body, data)
	}
	if errors.As(err, new(*noAPIError)) {
		return nil
	}
	return err
}

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
