package comparison

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/common/model"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/client"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
)

// Difference says how promwarp's answer to PromQL differs from Prometheus's, nil if it does not: in
// warnings, series, their order, times, or a bit of a value.
func Difference(prometheus, promwarp *client.Answer) error {
	if !slices.Equal(prometheus.Warnings, promwarp.Warnings) || !slices.Equal(prometheus.Infos, promwarp.Infos) {
		return fmt.Errorf("promwarp says %q and %q where Prometheus says %q and %q",
			promwarp.Warnings, promwarp.Infos, prometheus.Warnings, prometheus.Infos)
	}
	if bytes.Equal(prometheus.Data, promwarp.Data) {
		return nil
	}
	want, err := prometheus.Value()
	if err != nil {
		return fmt.Errorf("of Prometheus: %w", err)
	}
	got, err := promwarp.Value()
	if err != nil {
		return fmt.Errorf("of promwarp: %w", err)
	}
	if want.Type() != got.Type() {
		return fmt.Errorf("promwarp has a %s, Prometheus a %s", got.Type(), want.Type())
	}
	a, b := streams(want), streams(got)
	for i := range min(len(a), len(b)) {
		if err := differentStream(a[i], b[i]); err != nil {
			return fmt.Errorf("series %d: %w", i+1, err)
		}
	}
	if len(a) != len(b) {
		return fmt.Errorf("promwarp has %d series, Prometheus %d", len(b), len(a))
	}
	if s, ok := want.(*model.String); ok && s.Value != got.(*model.String).Value {
		return fmt.Errorf("promwarp has %q, Prometheus %q", got.(*model.String).Value, s.Value)
	}
	return nil
}

// toleranced finds a call of a function whose values may be off by plan.Tolerance.
var toleranced = sync.OnceValue(func() *regexp.Regexp {
	var names []string
	for _, name := range window.Names() {
		if window.Named(name).Exactness == plan.Compensated {
			names = append(names, name)
		}
	}
	return regexp.MustCompile(`\b(` + strings.Join(names, "|") + `)\s*\(`)
})

// HintOf says what to try where answers to a query differ that may do so by plan.Tolerance; empty of
// others.
func HintOf(query string) string {
	call := toleranced().FindStringSubmatch(query)
	if call == nil {
		return ""
	}
	return fmt.Sprintf("%s stays within 1e-12 of Prometheus's value, which what is made of it may magnify: --exact=bits asks for Prometheus's bits", call[1])
}

// streams are the series of an answer, those of a vector with a sample each. A scalar is one without
// labels.
func streams(v model.Value) (all []*model.SampleStream) {
	switch v := v.(type) {
	case model.Matrix:
		return v
	case model.Vector:
		for _, s := range v {
			all = append(all, streamOf(s))
		}
	case *model.Scalar:
		all = append(all, streamOf(&model.Sample{Value: v.Value, Timestamp: v.Timestamp}))
	}
	return all
}

func streamOf(s *model.Sample) *model.SampleStream {
	if s.Histogram != nil {
		return &model.SampleStream{Metric: s.Metric, Histograms: []model.SampleHistogramPair{{Timestamp: s.Timestamp, Histogram: s.Histogram}}}
	}
	return &model.SampleStream{Metric: s.Metric, Values: []model.SamplePair{{Timestamp: s.Timestamp, Value: s.Value}}}
}

// differentStream says how two series differ.
func differentStream(want, got *model.SampleStream) error {
	if !want.Metric.Equal(got.Metric) {
		return fmt.Errorf("it is %s in promwarp, %s in Prometheus", got.Metric, want.Metric)
	}
	for i := range min(len(want.Values), len(got.Values)) {
		w, g := want.Values[i], got.Values[i]
		if w.Timestamp != g.Timestamp || !sameBits(float64(w.Value), float64(g.Value)) {
			return fmt.Errorf("%s is %v at %s in promwarp, %v at %s in Prometheus",
				want.Metric, float64(g.Value), g.Timestamp, float64(w.Value), w.Timestamp)
		}
	}
	if len(want.Values) != len(got.Values) || len(want.Histograms) != len(got.Histograms) {
		return fmt.Errorf("%s has %d values and %d histograms in promwarp, %d and %d in Prometheus",
			want.Metric, len(got.Values), len(got.Histograms), len(want.Values), len(want.Histograms))
	}
	for i, w := range want.Histograms {
		if g := got.Histograms[i]; w.Timestamp != g.Timestamp || w.Histogram.String() != g.Histogram.String() {
			return fmt.Errorf("%s is %s at %s in promwarp, %s at %s in Prometheus", want.Metric, g.Histogram, g.Timestamp, w.Histogram, w.Timestamp)
		}
	}
	return nil
}

// sameBits says whether two values are the same float64. All NaNs are one: JSON has no more.
func sameBits(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || math.IsNaN(a) && math.IsNaN(b)
}
