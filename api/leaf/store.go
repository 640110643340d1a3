package leaf

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gogo/protobuf/proto"
	"github.com/golang/snappy"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/promwarp/promwarp/internal/leafpb"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/remoteread/serve"
)

// Series implements leafpb.StoreServer. The chunks are those of remote read, in the encodings that all
// Queriers know. A Querier takes its shard of all series itself.
func (l *Leaf) Series(r *leafpb.SeriesRequest, s leafpb.Store_SeriesServer) error {
	if err := l.replicas(r.WithoutReplicaLabels); err != nil {
		return err
	}
	if len(r.Matchers) == 0 {
		return status.Error(codes.InvalidArgument, "no matchers are given")
	}
	if _, err := l.selector(r.Matchers); err != nil {
		return err
	}
	if r.SkipChunks {
		return l.onlyLabels(r, s)
	}
	q := &prompb.Query{StartTimestampMs: max(r.MinTime, earliest), EndTimestampMs: min(r.MaxTime, latest)}
	if r.MinTime > r.MaxTime || q.StartTimestampMs > q.EndTimestampMs {
		return status.Error(codes.InvalidArgument, "the times are no range between the years 1 and 9999")
	}
	for i := range r.Matchers {
		q.Matchers = append(q.Matchers, &r.Matchers[i])
	}
	asked, err := proto.Marshal(&prompb.ReadRequest{Queries: []*prompb.Query{q}, AcceptedResponseTypes: []prompb.ReadRequest_ResponseType{prompb.ReadRequest_STREAMED_XOR_CHUNKS}})
	if err != nil {
		return err
	}
	ctx := s.Context()
	to := &series{send: s.Send, limit: r.Limit}
	a := &answer{stream: to.frames}
	request := request(ctx, l.o.Prefix+"/read", nil, snappy.Encode(nil, asked))
	request.URL.RawQuery = "chunks=xor&warnings=header"
	err = answered(ctx, a, func() { l.o.Doors.ServeHTTP(a, request) })
	switch {
	case to.failed != nil:
		return to.failed
	case err != nil && !to.full:
		return err
	case len(to.rest) > 0 && !to.full:
		return status.Error(codes.Aborted, strings.TrimSpace(string(to.rest))) // what broke the frames off
	}
	return warn(s, a.Header()[serve.WarningHeader])
}

// warn sends warnings.
func warn(s leafpb.Store_SeriesServer, texts []string) error {
	for _, text := range texts {
		if err := s.Send(&leafpb.SeriesResponse{Result: &leafpb.SeriesResponse_Warning{Warning: text}}); err != nil {
			return err
		}
	}
	return nil
}

// onlyLabels sends series without chunks.
func (l *Leaf) onlyLabels(r *leafpb.SeriesRequest, s leafpb.Store_SeriesServer) error {
	lease := l.o.Memory.Lease(memory.Answers)
	defer lease.Release()
	var all []labels.Labels
	warnings, err := l.list(s.Context(), lease, "/series", query{r.MinTime, r.MaxTime, r.Limit, r.Matchers}, &all)
	if err != nil {
		return err
	}
	if err := warn(s, warnings); err != nil {
		return err
	}
	slices.SortFunc(all, labels.Compare)
	for _, one := range all {
		if err := s.Send(&leafpb.SeriesResponse{Result: &leafpb.SeriesResponse_Series{Series: &leafpb.Series{Labels: prompb.FromLabels(one, nil)}}}); err != nil {
			return err
		}
	}
	return nil
}

// series makes the series of a Store of the frames of a remote read.
type series struct {
	send   func(*leafpb.SeriesResponse) error
	limit  int64 // of series; 0 for none
	sent   int64
	full   bool
	failed error

	rest   []byte // of a frame that has not come as a whole, or the text of an error
	broken bool   // what comes is such a text
	last   []prompb.Label
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frames takes what is written of a stream of frames.
func (s *series) frames(b []byte) error {
	if len(s.rest) > 0 {
		b = append(s.rest, b...)
	}
	for {
		n, size := binary.Uvarint(b)
		begin := size + crc32.Size
		if s.broken || size <= 0 || n > uint64(len(b)) || uint64(len(b)) < uint64(begin)+n {
			s.rest = slices.Clone(b)
			return nil
		}
		message := b[begin : begin+int(n)]
		if s.broken = crc32.Checksum(message, castagnoli) != binary.BigEndian.Uint32(b[size:]); s.broken {
			continue
		}
		if err := s.frame(message); err != nil {
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
		if !slices.EqualFunc(one.Labels, s.last, sameLabel) {
			if s.limit > 0 && s.sent >= s.limit {
				s.full = true
				return errFull
			}
			s.sent++
			s.last = one.Labels
		}
		to := &leafpb.Series{Labels: one.Labels}
		for _, c := range one.Chunks {
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
	lease := l.o.Memory.Lease(memory.Answers)
	defer lease.Release()
	var names []string
	warnings, err := l.list(ctx, lease, "/labels", query{r.Start, r.End, r.Limit, r.Matchers}, &names)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(r.WithoutReplicaLabels, name) })
	return &leafpb.LabelNamesResponse{Names: names, Warnings: warnings}, nil
}

// LabelValues implements leafpb.StoreServer.
func (l *Leaf) LabelValues(ctx context.Context, r *leafpb.LabelValuesRequest) (*leafpb.LabelValuesResponse, error) {
	switch {
	case !model.UTF8Validation.IsValidLabelName(r.Label):
		return nil, status.Error(codes.InvalidArgument, fmt.Sprintf("invalid label name: %q", r.Label))
	case slices.Contains(r.WithoutReplicaLabels, r.Label):
		return &leafpb.LabelValuesResponse{}, nil
	}
	lease := l.o.Memory.Lease(memory.Answers)
	defer lease.Release()
	var values []string
	warnings, err := l.list(ctx, lease, "/label/"+model.EscapeName(r.Label, model.ValueEncodingEscaping)+"/values", query{r.Start, r.End, r.Limit, r.Matchers}, &values)
	return &leafpb.LabelValuesResponse{Values: values, Warnings: warnings}, err
}

// query is what lists are asked by. Times are in ms.
type query struct {
	start, end, limit int64
	matchers          []prompb.LabelMatcher
}

// list answers a call by a list of Prometheus's API.
func (l *Leaf) list(ctx context.Context, lease *memory.Lease, path string, q query, data any) (warnings []string, err error) {
	form := url.Values{"start": {seconds(q.start)}, "end": {seconds(q.end)}}
	if q.limit > 0 {
		form.Set("limit", strconv.FormatInt(q.limit, 10))
	}
	if len(q.matchers) > 0 {
		text, err := l.selector(q.matchers)
		if err != nil {
			return nil, err
		}
		form.Set("match[]", text)
	}
	a := &answer{lease: lease, ctx: ctx}
	r := request(ctx, l.o.Prefix+path, nil, nil)
	r.Method, r.URL.RawQuery = http.MethodGet, form.Encode()
	if err := answered(ctx, a, func() { l.o.Doors.ServeHTTP(a, r) }); err != nil {
		return nil, err
	}
	said := struct {
		Data            any
		Warnings, Infos []string
	}{Data: data}
	if err := json.Unmarshal(a.body.Bytes(), &said); err != nil {
		return nil, status.Error(codes.Internal, fmt.Sprintf("the list of %s: %v", path, err))
	}
	return append(said.Warnings, said.Infos...), nil
}
