// Package federate answers /federate from samples, as Prometheus does: the newest sample of each
// series that a selector matches, as metric families for another Prometheus to scrape.
package federate

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/timestamp"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/api/admit"
	"github.com/promwarp/promwarp/api/promapi"
)

// Door answers /federate.
type Door struct {
	Queryable storage.Queryable
	Parser    parser.Parser
	// LookbackDelta is how old samples may be.
	LookbackDelta time.Duration
	// ExternalLabels are added to series.
	ExternalLabels func() labels.Labels
	Logger         *slog.Logger
	// NotePanic is told of errors, among which there may be panics.
	NotePanic func(error)
}

// exposed is the newest sample of a series.
type exposed struct {
	labels labels.Labels
	t      int64
	f      float64
	h      *histogram.FloatHistogram // nil if it is a float
}

// Answer answers with the newest sample of each series that a match[] selects.
func (d *Door) Answer(w http.ResponseWriter, r *http.Request, turn *admit.Turn) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, fmt.Sprintf("error parsing form values: %v", err), http.StatusBadRequest)
		return
	}
	selectors, err := d.Parser.ParseMetricSelectors(r.Form["match[]"])
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	samples, err := d.newest(r, selectors, time.Now())
	turn.Evaluated(nil)
	if err != nil {
		d.Failed(w, err)
		return
	}
	format := expfmt.NegotiateAccept(r.Header, expfmt.NewFormat(expfmt.TypeProtoDelim), expfmt.NewFormat(expfmt.TypeProtoText),
		expfmt.NewFormat(expfmt.TypeProtoCompact), expfmt.NewFormat(expfmt.TypeTextPlain))
	w.Header().Set("Content-Type", string(format))
	if err := d.expose(expfmt.NewEncoder(w, format), samples, format.FormatType() != expfmt.TypeTextPlain); err != nil {
		d.Logger.Warn("federation broke off", "err", err)
	}
}

// Failed answers in the form of Prometheus's /federate.
func (d *Door) Failed(w http.ResponseWriter, err error) {
	d.Logger.Warn("federation failed", "err", err)
	d.NotePanic(err)
	code := http.StatusInternalServerError
	if c, typ := promapi.Classify(err); typ == promapi.Unavailable || typ == promapi.Timeout || typ == promapi.Canceled {
		code = c
	}
	http.Error(w, err.Error(), code)
}

// newest returns the newest sample, not older than the lookback delta, of each
// series that one of the selectors matches, in order of their names.
func (d *Door) newest(r *http.Request, selectors [][]*labels.Matcher, now time.Time) ([]exposed, error) {
	maxt := timestamp.FromTime(now)
	mint := timestamp.FromTime(now.Add(-d.LookbackDelta))
	q, err := d.Queryable.Querier(mint, maxt)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	hints := &storage.SelectHints{Start: mint, End: maxt}
	var sets []storage.SeriesSet
	for _, matchers := range selectors {
		if len(matchers) > 0 { // otherwise Prometheus's database finds nothing
			sets = append(sets, q.Select(r.Context(), true, hints, matchers...))
		}
	}
	var samples []exposed
	set := storage.NewMergeSeriesSet(sets, 0, storage.ChainedSeriesMerge)
	var it chunkenc.Iterator
	last := storage.NewMemoizedEmptyIterator(d.LookbackDelta.Milliseconds())
	for set.Next() {
		it = set.At().Iterator(it)
		last.Reset(it)
		s := exposed{labels: set.At().Labels()}
		var ok bool
		switch kind := last.Seek(maxt); {
		case kind == chunkenc.ValFloat && last.AtT() == maxt:
			s.t, s.f = last.At()
		case kind == chunkenc.ValFloatHistogram && last.AtT() == maxt:
			s.t, s.h = last.AtFloatHistogram()
		default:
			if _, s.t, s.f, s.h, ok = last.PeekPrev(); !ok || s.t < mint {
				continue
			}
		}
		if err := last.Err(); err != nil {
			return nil, err
		}
		// The formats have no stale markers: a series that is stale is left out.
		if value.IsStaleNaN(s.f) || s.h != nil && value.IsStaleNaN(s.h.Sum) {
			continue
		}
		samples = append(samples, s)
	}
	if err := set.Err(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(samples, func(x, y exposed) int {
		return strings.Compare(x.labels.Get(model.MetricNameLabel), y.labels.Get(model.MetricNameLabel))
	})
	return samples, nil
}

// expose writes samples as metric families. One family holds what has the same
// name and kind. Native histograms with exponential buckets have no form but in
// protocol buffers and are left out of the others.
func (d *Door) expose(enc expfmt.Encoder, samples []exposed, native bool) error {
	external := d.externals()
	var family *dto.MetricFamily
	for _, s := range samples {
		if s.h != nil && !s.h.UsesCustomBuckets() && !native {
			continue
		}
		name := s.labels.Get(model.MetricNameLabel)
		if name == "" {
			d.Logger.Warn("a series without a name is left out of federation", "labels", s.labels.String())
			continue
		}
		kind := dto.MetricType_UNTYPED
		if s.h != nil && s.h.CounterResetHint == histogram.GaugeType {
			kind = dto.MetricType_GAUGE_HISTOGRAM
		} else if s.h != nil {
			kind = dto.MetricType_HISTOGRAM
		}
		if family == nil || family.GetName() != name || family.GetType() != kind {
			if family != nil {
				if err := enc.Encode(family); err != nil {
					return err
				}
			}
			family = &dto.MetricFamily{Name: &name, Type: &kind}
		}
		family.Metric = append(family.Metric, s.metric(external))
	}
	if family == nil {
		return nil
	}
	return enc.Encode(family)
}

// externals are the labels that series get which lack them, in order. instance is
// always one of them, empty if nothing else, so that a scrape that honours labels
// does not add its own.
func (d *Door) externals() []labels.Label {
	var all []labels.Label
	d.ExternalLabels().Range(func(l labels.Label) { all = append(all, l) })
	if !slices.ContainsFunc(all, func(l labels.Label) bool { return l.Name == model.InstanceLabel }) {
		all = append(all, labels.Label{Name: model.InstanceLabel})
	}
	slices.SortFunc(all, func(x, y labels.Label) int { return strings.Compare(x.Name, y.Name) })
	return all
}

func (s exposed) metric(external []labels.Label) *dto.Metric {
	m := &dto.Metric{TimestampMs: &s.t}
	add := func(name, value string) {
		m.Label = append(m.Label, &dto.LabelPair{Name: &name, Value: &value})
	}
	s.labels.Range(func(l labels.Label) {
		if l.Name != model.MetricNameLabel && l.Value != "" {
			add(l.Name, l.Value)
		}
	})
	for _, l := range external {
		if !s.labels.Has(l.Name) {
			add(l.Name, l.Value)
		}
	}
	switch {
	case s.h == nil:
		m.Untyped = &dto.Untyped{Value: &s.f}
	case s.h.UsesCustomBuckets():
		m.Histogram = classicHistogram(s.h)
	default:
		m.Histogram = nativeHistogram(s.h)
	}
	return m
}

// nativeHistogram is a histogram with exponential buckets in the exposition format.
func nativeHistogram(h *histogram.FloatHistogram) *dto.Histogram {
	spans := func(from []histogram.Span) (to []*dto.BucketSpan) {
		for _, s := range from {
			to = append(to, &dto.BucketSpan{Offset: &s.Offset, Length: &s.Length})
		}
		return to
	}
	return &dto.Histogram{
		SampleCountFloat: &h.Count,
		SampleSum:        &h.Sum,
		Schema:           &h.Schema,
		ZeroThreshold:    &h.ZeroThreshold,
		ZeroCountFloat:   &h.ZeroCount,
		PositiveSpan:     spans(h.PositiveSpans),
		PositiveCount:    h.PositiveBuckets,
		NegativeSpan:     spans(h.NegativeSpans),
		NegativeCount:    h.NegativeBuckets,
	}
}

// classicHistogram is a histogram with custom buckets as one of counters. The
// bucket of all observations is left to the format's encoder.
func classicHistogram(h *histogram.FloatHistogram) *dto.Histogram {
	counts := make([]float64, len(h.CustomValues)+1)
	for it := h.PositiveBucketIterator(); it.Next(); {
		if b := it.At(); int(b.Index) < len(counts) {
			counts[b.Index] = b.Count
		}
	}
	c := &dto.Histogram{SampleCountFloat: &h.Count, SampleSum: &h.Sum}
	var below float64
	for i, bound := range h.CustomValues {
		below += counts[i]
		c.Bucket = append(c.Bucket, &dto.Bucket{UpperBound: &bound, CumulativeCountFloat: new(below)})
	}
	return c
}
