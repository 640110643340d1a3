package leaf

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/promql"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/promwarp/promwarp/api/promapi"
	"github.com/promwarp/promwarp/internal/leafpb"
	"github.com/promwarp/promwarp/plan"
)

const (
	// mostBatch is the most series of a message, where a client asks for more.
	mostBatch = 1 << 14
	// mostBytes is from how many bytes on a message has no further series. A Querier decodes one while
	// the next is encoded.
	mostBytes = 1 << 18
)

// mostSteps is the most steps of a query. A Querier asks for more than the 11,000 of Prometheus's API
// where it has a subquery's steps evaluated here.
const mostSteps = 1 << 20

// Query implements leafpb.QueryServer.
func (l *Leaf) Query(r *leafpb.QueryRequest, s leafpb.Query_QueryServer) error {
	p, err := l.evaluation(r.Query, r.TimeoutSeconds, r.LookbackDeltaSeconds, common{r.StoreMatchers, r.ShardInfo, r.EnableDedup, r.ReplicaLabels})
	if err != nil {
		return err
	}
	p.Start = time.Now()
	if r.TimeSeconds != 0 {
		p.Start = time.Unix(r.TimeSeconds, 0)
	}
	p.End = p.Start
	err = l.query(s.Context(), "/thanos.Query/Query", p, &sender{stream: s, batch: r.ResponseBatchSize})
	if err != nil && r.EnablePartialResponse && status.Code(err) == codes.Aborted {
		return s.Send(&leafpb.QueryResponse{Result: &leafpb.QueryResponse_Warnings{Warnings: status.Convert(err).Message()}})
	}
	return err
}

// QueryRange implements leafpb.QueryServer.
func (l *Leaf) QueryRange(r *leafpb.QueryRangeRequest, s leafpb.Query_QueryRangeServer) error {
	p, err := l.evaluation(r.Query, r.TimeoutSeconds, r.LookbackDeltaSeconds, common{r.StoreMatchers, r.ShardInfo, r.EnableDedup, r.ReplicaLabels})
	if err != nil {
		return err
	}
	p.Start, p.End = time.Unix(r.StartTimeSeconds, 0), time.Unix(r.EndTimeSeconds, 0)
	switch steps := r.EndTimeSeconds - r.StartTimeSeconds; {
	case !isTime(r.StartTimeSeconds) || !isTime(r.EndTimeSeconds):
	case steps < 0:
		return status.Error(codes.InvalidArgument, "the end is before the start")
	case r.IntervalSeconds <= 0:
		return status.Error(codes.InvalidArgument, "the step is not at least a second")
	case steps/r.IntervalSeconds >= mostSteps:
		return status.Error(codes.InvalidArgument, fmt.Sprintf("the query has more than %d steps", mostSteps))
	}
	p.Step = seconds64(r.IntervalSeconds)
	return l.query(s.Context(), "/thanos.Query/QueryRange", p, &sender{stream: s, batch: r.ResponseBatchSize})
}

// common is what calls of both kinds ask for besides a query and its times.
type common struct {
	stores   []leafpb.StoreMatchers
	shard    *leafpb.ShardInfo
	dedup    bool
	replicas []string
}

// evaluation is what a call asks for but for its times, or why it is not answered.
func (l *Leaf) evaluation(query string, timeout, lookback int64, c common) (p promapi.Evaluation, err error) {
	switch {
	case len(c.stores) > 0:
		return p, status.Error(codes.Unimplemented, "promwarp is one store: it does not choose among stores by matchers")
	case c.shard != nil && c.shard.TotalShards > 1:
		return p, status.Error(codes.Unimplemented, "promwarp answers for all series, not for a shard of them")
	case timeout < 0 || lookback < 0:
		return p, status.Error(codes.InvalidArgument, "the timeout or the lookback delta is negative")
	}
	if c.dedup {
		err = l.replicas(c.replicas)
	}
	return promapi.Evaluation{Query: query, Timeout: seconds64(timeout), Lookback: seconds64(lookback)}, err
}

// isTime reports whether a moment in s is one that evaluations can be at.
func isTime(s int64) bool { return s >= earliest/1000 && s <= latest/1000 }

// seconds64 is a number of seconds, a century at most.
func seconds64(n int64) time.Duration { return time.Duration(min(n, 100*365*24*3600)) * time.Second }

// query answers a call by an evaluation.
func (l *Leaf) query(ctx context.Context, door string, p promapi.Evaluation, to *sender) error {
	if !isTime(p.Start.Unix()) || !isTime(p.End.Unix()) {
		return status.Error(codes.InvalidArgument, "a time is before the year 1 or after 9999")
	}
	// Without stats: counting samples has nothing reused of what was evaluated before.
	form := url.Values{"query": {p.Query}}
	if p.Step == 0 {
		form.Set("time", seconds(p.Start.UnixMilli()))
	} else {
		form.Set("start", seconds(p.Start.UnixMilli()))
		form.Set("end", seconds(p.End.UnixMilli()))
		form.Set("step", strconv.FormatFloat(p.Step.Seconds(), 'f', -1, 64))
	}
	a := &answer{}
	var failed error // while it was sent
	err := answered(ctx, a, func() {
		l.o.Evaluate(a, request(ctx, door, form, nil), door, p, func(q promql.Query, result *promql.Result) error {
			failed = to.result(q, result)
			return failed
		})
	})
	if failed != nil {
		return failed
	}
	return err
}

// sender sends a result, series by series or in batches, and encodes it meanwhile: most of what a leaf
// does for a result that is remembered is this.
type sender struct {
	stream grpc.ServerStream
	batch  int64

	message *[]byte // series of the next message, of buffers
	count   int64   // of those
	one     []byte  // the series that samples are added to
}

func (s *sender) send(r *leafpb.QueryResponse) error { return s.stream.SendMsg(r) }

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
	said := &leafpb.QueryStats{}
	if read := q.Stats().Samples; read != nil {
		said.SamplesTotal, said.PeakSamples = read.TotalSamples, int64(read.PeakSamples)
	}
	return s.send(&leafpb.QueryResponse{Result: &leafpb.QueryResponse_Stats{Stats: said}})
}

// value sends the series of a result. A text is no series.
func (s *sender) value(result *promql.Result) error {
	if v, ok := result.Value.(*plan.Matrix); ok {
		for i := range v.Rows {
			row := &v.Rows[i]
			s.begin(row.Labels)
			for t, v := range row.All(v.Grid) {
				s.one = appendSample(s.one, t, v)
			}
			if err := s.end(); err != nil {
				return err
			}
		}
		return nil
	}
	all, _ := plan.SeriesOf(result.Value)
	for _, one := range all {
		s.begin(one.Metric)
		for _, p := range one.Floats {
			s.one = appendSample(s.one, p.T, p.F)
		}
		for _, p := range one.Histograms {
			wire := prompb.FromFloatHistogram(p.T, p.H)
			data, err := wire.Marshal()
			if err != nil {
				return err
			}
			s.one = appendField(s.one, histogramTag, data)
		}
		if err := s.end(); err != nil {
			return err
		}
	}
	return nil
}

// begin begins a series.
func (s *sender) begin(l labels.Labels) { s.one = appendLabels(s.one[:0], l) }

// end adds the series to the message, and sends that if it is full.
func (s *sender) end() error {
	if s.message == nil {
		s.message = buffers.Get(0)
	}
	tag := byte(seriesTag)
	if s.batch <= 1 {
		tag = timeseriesTag
	}
	*s.message = appendField(*s.message, tag, s.one)
	if s.count++; s.count >= min(s.batch, mostBatch) || len(*s.message) >= mostBytes {
		return s.flush()
	}
	return nil
}

// flush sends the series that were added.
func (s *sender) flush() error {
	if s.message == nil {
		return nil
	}
	var begin []byte
	if s.batch > 1 {
		begin = binary.AppendUvarint([]byte{batchTag}, uint64(len(*s.message)))
	}
	encoded := mem.BufferSlice{mem.SliceBuffer(begin), mem.NewBuffer(s.message, &buffers)}
	s.message, s.count = nil, 0
	return s.stream.SendMsg(encoded)
}
