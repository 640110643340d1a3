package leaf

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/promql"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/promwarp/promwarp/api/leaf/leafpb"
	"github.com/promwarp/promwarp/plan"
)

const (
	// mostBatch is the most series of a message, where a client asks for more.
	mostBatch = 1 << 14
	// mostPoints is from how many points on a message has no further series.
	mostPoints = 1 << 16
)

// Query implements leafpb.QueryServer.
func (l *Leaf) Query(r *leafpb.QueryRequest, s leafpb.Query_QueryServer) error {
	form := url.Values{"query": {r.Query}}
	if r.TimeSeconds != 0 {
		form.Set("time", strconv.FormatInt(r.TimeSeconds, 10))
	}
	if len(r.StoreMatchers) > 0 {
		return errStoreMatchers
	}
	if err := refuseShards(r.ShardInfo); err != nil {
		return err
	}
	if r.EnableDedup {
		if err := l.replicas(r.ReplicaLabels); err != nil {
			return err
		}
	}
	durations(form, r.TimeoutSeconds, r.LookbackDeltaSeconds)
	err := l.query(s.Context(), "/thanos.Query/Query", form, &sender{send: s.Send, batch: r.ResponseBatchSize})
	if err != nil && r.EnablePartialResponse && status.Code(err) == codes.Aborted {
		return s.Send(&leafpb.QueryResponse{Result: &leafpb.QueryResponse_Warnings{Warnings: status.Convert(err).Message()}})
	}
	return err
}

// QueryRange implements leafpb.QueryServer.
func (l *Leaf) QueryRange(r *leafpb.QueryRangeRequest, s leafpb.Query_QueryRangeServer) error {
	whole := func(n int64) []string { return []string{strconv.FormatInt(n, 10)} }
	form := url.Values{"query": {r.Query}, "start": whole(r.StartTimeSeconds), "end": whole(r.EndTimeSeconds), "step": whole(r.IntervalSeconds)}
	if len(r.StoreMatchers) > 0 {
		return errStoreMatchers
	}
	if err := refuseShards(r.ShardInfo); err != nil {
		return err
	}
	if r.EnableDedup {
		if err := l.replicas(r.ReplicaLabels); err != nil {
			return err
		}
	}
	durations(form, r.TimeoutSeconds, r.LookbackDeltaSeconds)
	return l.query(s.Context(), "/thanos.Query/QueryRange", form, &sender{send: s.Send, batch: r.ResponseBatchSize})
}

var errStoreMatchers = status.Error(codes.Unimplemented, "promwarp is one store: it does not choose among stores by matchers")

// durations adds what a call has beside its query and times, in s.
func durations(form url.Values, timeout, lookback int64) {
	for name, s := range map[string]int64{"timeout": timeout, "lookback_delta": lookback} {
		if s > 0 {
			form.Set(name, strconv.FormatInt(s, 10))
		}
	}
}

// query answers a call by what a form asks for.
func (l *Leaf) query(ctx context.Context, door string, form url.Values, to *sender) error {
	if form.Has("timeout") {
		if s, err := strconv.Atoi(form.Get("timeout")); err == nil && s < int(time.Hour/time.Second) {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, time.Duration(s)*time.Second)
			defer cancel()
		}
	}
	a := &answer{}
	var failed error // while it was sent
	err := answered(ctx, a, func() {
		l.o.Evaluate(a, request(ctx, door, form, nil), door, func(q promql.Query, result *promql.Result) error {
			failed = to.result(q, result)
			return failed
		})
	})
	if failed != nil {
		return failed
	}
	return err
}

// sender sends a result, series by series or in batches.
type sender struct {
	send  func(*leafpb.QueryResponse) error
	batch int64

	series []prompb.TimeSeries
	points int
}

// result sends a query's result: warnings, series, and statistics at last.
func (s *sender) result(q promql.Query, result *promql.Result) error {
	if len(result.Warnings) > 0 {
		var texts []string
		for _, err := range result.Warnings.AsErrors() {
			texts = append(texts, err.Error())
		}
		if err := s.send(&leafpb.QueryResponse{Result: &leafpb.QueryResponse_Warnings{Warnings: strings.Join(texts, ", ")}}); err != nil {
			return err
		}
	}
	err := s.value(result)
	if err == nil {
		err = s.flush()
	}
	if err != nil {
		return err
	}
	read := q.Stats().Samples
	said := &leafpb.QueryStats{}
	if read != nil {
		said.SamplesTotal, said.PeakSamples = read.TotalSamples, int64(read.PeakSamples)
	}
	return s.send(&leafpb.QueryResponse{Result: &leafpb.QueryResponse_Stats{Stats: said}})
}

// value sends the series of a result. A text is no series.
func (s *sender) value(result *promql.Result) error {
	switch v := result.Value.(type) {
	case *plan.Matrix:
		for i := range v.Rows {
			row := &v.Rows[i]
			points := make([]prompb.Sample, 0, len(row.Values))
			for t, v := range row.All(v.Grid) {
				points = append(points, prompb.Sample{Timestamp: t, Value: v})
			}
			if err := s.add(row.Labels, points, nil); err != nil {
				return err
			}
		}
	case promql.Matrix:
		for _, one := range v {
			points := make([]prompb.Sample, 0, len(one.Floats))
			for _, p := range one.Floats {
				points = append(points, prompb.Sample{Timestamp: p.T, Value: p.F})
			}
			var histograms []prompb.Histogram
			for _, p := range one.Histograms {
				histograms = append(histograms, prompb.FromFloatHistogram(p.T, p.H))
			}
			if err := s.add(one.Metric, points, histograms); err != nil {
				return err
			}
		}
	case promql.Vector:
		for _, one := range v {
			var err error
			if one.H != nil {
				err = s.add(one.Metric, nil, []prompb.Histogram{prompb.FromFloatHistogram(one.T, one.H)})
			} else {
				err = s.add(one.Metric, []prompb.Sample{{Timestamp: one.T, Value: one.F}}, nil)
			}
			if err != nil {
				return err
			}
		}
	case promql.Scalar:
		return s.add(labels.EmptyLabels(), []prompb.Sample{{Timestamp: v.T, Value: v.V}}, nil)
	}
	return nil
}

// add adds a series to the message, and sends that if it is full.
func (s *sender) add(l labels.Labels, points []prompb.Sample, histograms []prompb.Histogram) error {
	one := prompb.TimeSeries{Labels: prompb.FromLabels(l, nil), Samples: points, Histograms: histograms}
	if s.batch <= 1 {
		return s.send(&leafpb.QueryResponse{Result: &leafpb.QueryResponse_Timeseries{Timeseries: &one}})
	}
	s.series = append(s.series, one)
	if s.points += len(points) + len(histograms); int64(len(s.series)) >= min(s.batch, mostBatch) || s.points >= mostPoints {
		return s.flush()
	}
	return nil
}

// flush sends what was added.
func (s *sender) flush() error {
	if len(s.series) == 0 {
		return nil
	}
	batch := &leafpb.Batch{Series: s.series}
	s.series, s.points = nil, 0
	return s.send(&leafpb.QueryResponse{Result: &leafpb.QueryResponse_TimeseriesBatch{TimeseriesBatch: batch}})
}
