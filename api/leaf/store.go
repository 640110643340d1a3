package leaf

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"github.com/gogo/protobuf/proto"
	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/prompb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/promwarp/promwarp/api/leaf/leafpb"
)

// Series implements leafpb.StoreServer. The chunks are those of remote read, in the encodings that all
// Queriers know. Where a client wants labels alone there are no chunks.
func (l *Leaf) Series(r *leafpb.SeriesRequest, s leafpb.Store_SeriesServer) error {
	if err := refuseShards(r.ShardInfo); err != nil {
		return err
	}
	if err := l.replicas(r.WithoutReplicaLabels); err != nil {
		return err
	}
	q := &prompb.Query{StartTimestampMs: max(r.MinTime, earliest), EndTimestampMs: min(r.MaxTime, latest)}
	for i := range r.Matchers {
		q.Matchers = append(q.Matchers, &r.Matchers[i])
	}
	if r.SkipChunks {
		q.Hints = &prompb.ReadHints{Func: "series", StartMs: q.StartTimestampMs, EndMs: q.EndTimestampMs}
	}
	asked, err := proto.Marshal(&prompb.ReadRequest{Queries: []*prompb.Query{q}, AcceptedResponseTypes: []prompb.ReadRequest_ResponseType{prompb.ReadRequest_STREAMED_XOR_CHUNKS}})
	if err != nil {
		return err
	}
	ctx := s.Context()
	to := &series{send: s.Send, limit: r.Limit, skip: r.SkipChunks}
	a := &answer{stream: to.frames}
	request := request(ctx, l.o.Prefix+"/read", nil, snappy.Encode(nil, asked))
	request.URL.RawQuery = "chunks=xor"
	err = answered(ctx, a, func() { l.o.Doors.ServeHTTP(a, request) })
	switch {
	case to.failed != nil:
		return to.failed
	case to.full:
		return nil
	case err != nil:
		return err
	case len(to.rest) > 0:
		return status.Error(codes.Aborted, string(to.rest)) // frames end with the text of what broke them off
	}
	return nil
}

// series makes the series of a Store of the frames of a remote read.
type series struct {
	send   func(*leafpb.SeriesResponse) error
	limit  int64 // of series; 0 for none
	skip   bool  // labels alone
	sent   int64
	full   bool
	failed error

	rest []byte // of a frame that has not come as a whole
	last []prompb.Label
}

// frames takes what is written of a stream of frames.
func (s *series) frames(b []byte) error {
	if len(s.rest) > 0 {
		b = append(s.rest, b...)
	}
	for {
		n, size := binary.Uvarint(b)
		begin := size + 4 // behind a checksum, of what does not leave the process
		if size <= 0 || n > uint64(len(b)) || uint64(len(b)) < uint64(begin)+n {
			s.rest = slices.Clone(b)
			return nil
		}
		if err := s.frame(b[begin : begin+int(n)]); err != nil {
			if !s.full {
				s.failed = err
			}
			return err
		}
		b = b[begin+int(n):]
	}
}

// errFull ends a read whose limit is reached.
var errFull = errors.New("as many series as were asked for")

// frame sends one frame, which has chunks of one series.
func (s *series) frame(message []byte) error {
	var frame prompb.ChunkedReadResponse
	if err := proto.Unmarshal(message, &frame); err != nil {
		return err
	}
	for _, one := range frame.ChunkedSeries {
		if again := slices.EqualFunc(one.Labels, s.last, sameLabel); again && s.skip {
			continue
		} else if !again {
			if s.limit > 0 && s.sent >= s.limit {
				s.full = true
				return errFull
			}
			s.sent++
			s.last = one.Labels
		}
		to := &leafpb.Series{Labels: one.Labels}
		for _, c := range one.Chunks {
			if s.skip {
				break
			}
			encoding, ok := encodings[c.Type]
			if !ok {
				return status.Error(codes.Internal, fmt.Sprintf("a chunk of series %s in encoding %s, which no Querier knows", fmt.Sprint(one.Labels), c.Type))
			}
			to.Chunks = append(to.Chunks, leafpb.AggrChunk{MinTime: c.MinTimeMs, MaxTime: c.MaxTimeMs, Raw: &leafpb.Chunk{Type: encoding, Data: c.Data}})
		}
		if err := s.send(&leafpb.SeriesResponse{Result: &leafpb.SeriesResponse_Series{Series: to}}); err != nil {
			return err
		}
	}
	return nil
}

func sameLabel(a, b prompb.Label) bool { return a.Name == b.Name && a.Value == b.Value }

// encodings are those of a Store by those of remote read.
var encodings = map[prompb.Chunk_Encoding]leafpb.Chunk_Encoding{
	prompb.Chunk_XOR: leafpb.Chunk_XOR, prompb.Chunk_HISTOGRAM: leafpb.Chunk_HISTOGRAM, prompb.Chunk_FLOAT_HISTOGRAM: leafpb.Chunk_FLOAT_HISTOGRAM,
}

// LabelNames implements leafpb.StoreServer.
func (l *Leaf) LabelNames(ctx context.Context, r *leafpb.LabelNamesRequest) (*leafpb.LabelNamesResponse, error) {
	names, warnings, err := l.list(ctx, "/labels", r.Start, r.End, r.Limit, r.Matchers)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(r.WithoutReplicaLabels, name) })
	return &leafpb.LabelNamesResponse{Names: names, Warnings: warnings}, nil
}

// LabelValues implements leafpb.StoreServer.
func (l *Leaf) LabelValues(ctx context.Context, r *leafpb.LabelValuesRequest) (*leafpb.LabelValuesResponse, error) {
	if slices.Contains(r.WithoutReplicaLabels, r.Label) {
		return &leafpb.LabelValuesResponse{}, nil
	}
	values, warnings, err := l.list(ctx, "/label/"+url.PathEscape(r.Label)+"/values", r.Start, r.End, r.Limit, r.Matchers)
	return &leafpb.LabelValuesResponse{Values: values, Warnings: warnings}, err
}

// list answers a call by a list of Prometheus's API. Times are in ms.
func (l *Leaf) list(ctx context.Context, path string, start, end, limit int64, matchers []prompb.LabelMatcher) (list, warnings []string, err error) {
	form := url.Values{"start": {seconds(start)}, "end": {seconds(end)}}
	if limit > 0 {
		form.Set("limit", strconv.FormatInt(limit, 10))
	}
	if len(matchers) > 0 {
		text, err := selector(matchers)
		if err != nil {
			return nil, nil, err
		}
		form.Set("match[]", text)
	}
	a := &answer{}
	r := request(ctx, l.o.Prefix+path, nil, nil)
	r.Method, r.URL.RawQuery = "GET", form.Encode()
	if err := answered(ctx, a, func() { l.o.Doors.ServeHTTP(a, r) }); err != nil {
		return nil, nil, err
	}
	var said struct {
		Data            []string
		Warnings, Infos []string
	}
	if err := json.Unmarshal(a.body.Bytes(), &said); err != nil {
		return nil, nil, status.Error(codes.Internal, fmt.Sprintf("the list of %s: %v", path, err))
	}
	return said.Data, append(said.Warnings, said.Infos...), nil
}
