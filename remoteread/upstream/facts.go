// Package upstream finds out how the server that samples are read from is set, as far as
// its answers to queries depend on that: its external labels, its evaluation interval, its
// lookback delta and its features.
//
// A Watcher reads them from the server's HTTP API: /api/v1/status/config, status/flags,
// features and status/buildinfo. It reads all of them every minute, and the configuration
// whenever a fetch asks it to confirm the external labels, and says when something has
// changed. What an operator has set wins over what is read; that is for who makes use of
// the facts.
//
// Start reading at Watcher.
package upstream

import (
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// DefaultEvaluationInterval is Prometheus's default of global.evaluation_interval.
const DefaultEvaluationInterval = time.Minute

// Facts are what is known of a server.
type Facts struct {
	// ExternalLabels are the labels that the server adds to the series that it sends.
	ExternalLabels labels.Labels
	// LabelsKnown says that ExternalLabels are certain; otherwise there may be some.
	LabelsKnown bool
	// NoConfig says that the server does not tell its configuration.
	NoConfig bool
	// EvaluationInterval is the step of a subquery that has none; 0 if it is not known.
	EvaluationInterval time.Duration
	// Lookback is how far back an instant selector looks; 0 if it is not known.
	Lookback time.Duration
	// Features are the ones that are on; FeaturesKnown says that they are certain.
	Features      Features
	FeaturesKnown bool
	// Version is the server's, such as 3.15.0; empty if it is not known.
	Version string
	// Unknown says what could not be found out, why, and what to do; a sentence each.
	Unknown []string
}

// Same reports whether queries are answered alike with both.
func (f *Facts) Same(g *Facts) bool {
	return f.EvaluationInterval == g.EvaluationInterval && f.Lookback == g.Lookback && f.Features == g.Features &&
		f.LabelsKnown == g.LabelsKnown && f.NoConfig == g.NoConfig && labels.Equal(f.ExternalLabels, g.ExternalLabels)
}

func (f *Facts) String() string {
	var b strings.Builder
	b.WriteString("external labels ")
	switch {
	case !f.LabelsKnown:
		b.WriteString("not known")
	case f.ExternalLabels.IsEmpty():
		b.WriteString("none")
	default:
		b.WriteString(f.ExternalLabels.String())
	}
	if f.EvaluationInterval > 0 {
		fmt.Fprintf(&b, ", evaluation interval %s", f.EvaluationInterval)
	} else {
		b.WriteString(", evaluation interval not known")
	}
	if f.Lookback > 0 {
		fmt.Fprintf(&b, ", lookback delta %s", f.Lookback)
	}
	if f.FeaturesKnown {
		fmt.Fprintf(&b, ", features %s", f.Features)
	} else {
		b.WriteString(", features not known")
	}
	if f.Version != "" {
		fmt.Fprintf(&b, ", version %s", f.Version)
	}
	return b.String()
}

// Facts returns what is known.
func (w *Watcher) Facts() Facts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.facts()
}

func (w *Watcher) facts() (f Facts) {
	f.NoConfig = w.noConfig != ""
	switch {
	case w.o.ExternalLabels != nil:
		f.ExternalLabels, f.LabelsKnown = *w.o.ExternalLabels, true
	case w.config != nil:
		f.ExternalLabels, f.LabelsKnown = w.config.external, true
	case w.noConfig != "":
		f.Unknown = append(f.Unknown, fmt.Sprintf(
			"whether the upstream adds external labels to its series: %s; if it has some, set --upstream.external-labels to them, otherwise to none", w.noConfig))
	default:
		f.Unknown = append(f.Unknown, "whether the upstream adds external labels to its series: it has not answered yet")
	}
	if w.config != nil {
		f.EvaluationInterval = w.config.interval
	} else if w.noConfig != "" {
		f.Unknown = append(f.Unknown, fmt.Sprintf(
			"the upstream's evaluation interval, which is the step of subqueries that have none: %s; 1m is taken unless --query.evaluation-interval is set", w.noConfig))
	}
	switch {
	case w.program != nil:
		f.Features, f.FeaturesKnown, f.Lookback, f.Version = w.program.features, w.program.featuresKnown, w.program.lookback, w.program.version
		if !f.FeaturesKnown {
			f.Unknown = append(f.Unknown, "the upstream's features: its HTTP API does not list them; none are taken to be on unless --enable-feature is set")
		}
	case w.source == nil:
		f.Unknown = append(f.Unknown, "the upstream's features: the base URL of its HTTP API is not known; none are taken to be on unless --enable-feature is set")
	}
	return f
}

// say logs what is not known, each thing once.
func (w *Watcher) say() {
	w.mu.Lock()
	f := w.facts()
	var news []string
	for _, what := range f.Unknown {
		if !w.said[what] {
			w.said[what] = true
			news = append(news, what)
		}
	}
	w.mu.Unlock()
	for _, what := range news {
		w.o.Logger.Warn("Not known of the upstream: "+what, "upstream", w.o.Name)
	}
}
