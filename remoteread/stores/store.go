// Package stores asks a store of Thanos over gRPC: a sidecar, a store gateway, a receiver, a ruler or a
// Querier.
//
// In go requests. Out come the messages of thanos.Store/Series one by one, as they lie on the wire, lists
// of labels, and what the store tells by thanos.Info. Messages of series are not decoded here:
// remoteread/answer puts them into a selection. Errors are gRPC's; package remoteread says what to do
// about them.
//
// Start with New. info.go reads what a store is.
package stores

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gogo/protobuf/proto"
	commonconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/version"
	"github.com/prometheus/prometheus/prompb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"

	"github.com/promwarp/promwarp/internal/leafpb"
)

// Config says which store is asked, and how.
type Config struct {
	Name    string // in messages and metrics; the address where it is empty
	Address string // host:port of its gRPC server
	// TLS is how it is talked to; nil is without TLS.
	TLS     *commonconfig.TLSConfig
	Headers map[string]string // metadata of each call, such as thanos-tenant
	Timeout time.Duration     // longest wait for a message
	// Partial takes what a store answers that lacks a part, with its warnings. Without it such an
	// answer is an error.
	Partial bool
	// MaxResolution is the lowest resolution of blocks that are read; 0 is raw samples alone.
	MaxResolution time.Duration
}

// String is what the store is called.
func (c *Config) String() string {
	if c.Name != "" {
		return c.Name
	}
	return c.Address
}

// Validate says what is wrong.
func (c *Config) Validate() error {
	if c.Address == "" {
		return errors.New("it has no address; write the gRPC address of a sidecar, store gateway, receiver, ruler or Querier, such as sidecar:10901")
	}
	host, port, err := net.SplitHostPort(c.Address)
	if err != nil || host == "" || port == "" || strings.ContainsAny(c.Address, "/ ") {
		return fmt.Errorf("address %q: write host and port of a gRPC server, such as sidecar:10901", c.Address)
	}
	if c.MaxResolution != 0 && !slices.Contains(Resolutions, c.MaxResolution) {
		return fmt.Errorf("max_resolution %s: write 5m or 1h, the resolutions of Thanos's blocks, or 0 for raw samples alone", model.Duration(c.MaxResolution))
	}
	for name := range c.Headers {
		if strings.HasPrefix(strings.ToLower(name), "grpc-") || strings.HasPrefix(name, ":") {
			return fmt.Errorf("headers: %q is gRPC's own", name)
		}
	}
	return nil
}

// Store is one store. It is safe for concurrent use.
type Store struct {
	Config
	conn  *grpc.ClientConn
	facts atomic.Pointer[Facts] // as they were told last; nil before
}

// A connection that is lost is tried again at most that far apart, and one that answers nothing, not even
// pings, is lost.
const (
	leastBackoff = 100 * time.Millisecond
	mostBackoff  = 5 * time.Second
	pingAfter    = 10 * time.Second // which Thanos's servers allow
	pingTimeout  = 10 * time.Second
)

// New returns a store whose messages have at most that many bytes. No connection is made yet.
func New(c Config, mostBytes int64) (*Store, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	creds := insecure.NewCredentials()
	if c.TLS != nil {
		t, err := commonconfig.NewTLSConfig(c.TLS)
		if err != nil {
			return nil, fmt.Errorf("tls_config: %w; correct it, or let promwarp's user read the file", err)
		}
		creds = credentials.NewTLS(t)
	}
	conn, err := grpc.NewClient("dns:///"+c.Address,
		grpc.WithTransportCredentials(creds),
		grpc.WithUserAgent(version.ComponentUserAgent("promwarp")),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{}), grpc.MaxCallRecvMsgSize(int(mostBytes))),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingAfter, Timeout: pingTimeout}),
		grpc.WithDisableServiceConfig(),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: leastBackoff, Multiplier: 2, Jitter: 0.2, MaxDelay: mostBackoff},
			MinConnectTimeout: mostBackoff,
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", c.Address, err)
	}
	return &Store{Config: c, conn: conn}, nil
}

// Close closes the connection.
func (s *Store) Close() error { return s.conn.Close() }

// outgoing is ctx with the headers of the configuration.
func (s *Store) outgoing(ctx context.Context) context.Context {
	for name, value := range s.Headers {
		ctx = metadata.AppendToOutgoingContext(ctx, name, value)
	}
	return ctx
}

// Strategy is what a request says of an answer that lacks a part: with whole, or without Partial, it is to
// be an error.
func (s *Store) Strategy(whole bool) (disabled bool, strategy leafpb.PartialResponseStrategy) {
	if whole || !s.Partial {
		return true, leafpb.PartialResponseStrategy_ABORT
	}
	return false, leafpb.PartialResponseStrategy_WARN
}

// Request is a request for series. Of matchers the one of AggregateLabel is taken out.
func (s *Store) Request(mint, maxt int64, matchers []*prompb.LabelMatcher, whole bool) *leafpb.SeriesRequest {
	r := &leafpb.SeriesRequest{MinTime: mint, MaxTime: maxt, Aggregates: aggregates[rawSamples], ResponseBatchSize: batchSize}
	r.PartialResponseDisabled, r.PartialResponseStrategy = s.Strategy(whole)
	for _, m := range matchers {
		if s.MaxResolution > 0 && m.Name == AggregateLabel {
			var resolution time.Duration
			r.Aggregates, resolution = parseAggregate(m.Value)
			r.MaxResolutionWindow = resolution.Milliseconds()
			continue
		}
		r.Matchers = append(r.Matchers, *m)
	}
	return r
}

// batchSize is how many series of a message stores that put several into one are asked for.
const batchSize = 64

// Series calls each with every message that the store answers a request with, a thanos.SeriesResponse, which is
// there until each returns. It ends at the first error.
func (s *Store) Series(ctx context.Context, r *leafpb.SeriesRequest, each func(message []byte) error) error {
	ctx, cancel := context.WithCancel(s.outgoing(ctx))
	defer cancel()
	stream, err := s.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/thanos.Store/Series")
	if err != nil {
		return err
	}
	// Where a request cannot be sent the answer says why.
	if err := stream.SendMsg(r); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	var m message
	for {
		err := stream.RecvMsg(&m)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = each(m)
		}
		if err != nil {
			return err
		}
	}
}

// Call has the store answer a request by one message.
func (s *Store) Call(ctx context.Context, method string, request, told proto.Message) error {
	return s.conn.Invoke(s.outgoing(ctx), method, request, told)
}

// message is one as it lies on the wire.
type message []byte

// codec is leafpb.Codec with buffers, but leaves a message that comes as it is.
type codec struct{ leafpb.Codec }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	data, err := c.Codec.Marshal(v)
	return mem.BufferSlice{mem.SliceBuffer(data)}, err
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*message)
	if !ok {
		return c.Codec.Unmarshal(data.Materialize(), v)
	}
	if n := data.Len(); n > cap(*m) {
		*m = make(message, n)
	} else {
		*m = (*m)[:n]
	}
	data.CopyTo(*m)
	return nil
}
