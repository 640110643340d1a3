// Package traces sends traces to where the tracing block of the configuration file says, which is
// Prometheus's. Start reading at Sender.Apply.
package traces

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	commonconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/version"
	promconfig "github.com/prometheus/prometheus/config"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/credentials"
)

// service is promwarp's name in traces. That Prometheus's own package of this name has a fixed one,
// Prometheus's, is why it is not used.
const service = "promwarp"

const (
	// complainEvery is how often the log may say that traces cannot be sent.
	complainEvery = 5 * time.Minute
	// patience is how long the last spans may take to be sent.
	patience = 2 * time.Second
)

// Sender sends the traces of the process, as package otel knows one provider.
type Sender struct {
	logger *slog.Logger

	mu       sync.Mutex
	provider *trace.TracerProvider // nil while nothing is sent
	stop     func() error          // sends the last spans of provider if it can in time
	ending   sync.WaitGroup        // of providers before
}

// New returns a sender that sends nothing until Apply.
func New(logger *slog.Logger) *Sender {
	often := &rate.Sometimes{Interval: complainEvery}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		often.Do(func() { logger.Warn("traces cannot be sent; queries do not wait for that", "err", err) })
	}))
	return &Sender{logger: logger}
}

// Check says why Apply would fail.
func Check(c promconfig.TracingConfig) error {
	_, err := clientOf(c)
	return err
}

// Apply sends traces as c says; none if it names no endpoint. The endpoint need not be there. What
// was to be sent by the configuration before is sent in the background. After an error all is as it
// was.
func (s *Sender) Apply(c promconfig.TracingConfig) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var next *trace.TracerProvider
	var stop func() error
	if c.Endpoint != "" {
		client, err := clientOf(c)
		if err != nil {
			return err
		}
		exporter, err := otlptrace.New(context.Background(), client) // which connects later
		if err != nil {
			return fmt.Errorf("tracing: %w", err)
		}
		next = trace.NewTracerProvider(
			trace.WithBatcher(exporter),
			trace.WithSampler(trace.ParentBased(trace.TraceIDRatioBased(c.SamplingFraction))),
			trace.WithResource(resource.NewSchemaless(attribute.String("service.name", service), attribute.String("service.version", version.Version))),
		)
		stop = func() error {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			err := next.Shutdown(ctx)
			if err != nil {
				_ = exporter.Shutdown(ctx) // whose time is up: it breaks off what it is at
			}
			return err
		}
	}
	s.replace(next, stop)
	return nil
}

// replace has spans go to next, or nowhere if that is nil, from now on.
func (s *Sender) replace(next *trace.TracerProvider, stop func() error) {
	before, end := s.provider, s.stop
	s.provider, s.stop = next, stop
	if next != nil {
		otel.SetTracerProvider(next)
	} else {
		otel.SetTracerProvider(noop.NewTracerProvider())
	}
	if before == nil {
		return
	}
	s.ending.Go(func() {
		if err := end(); err != nil {
			s.logger.Warn("the last traces were not sent", "err", err)
		}
	})
}

// Close sends what is to be sent, which takes two seconds at most, and ends sending.
func (s *Sender) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replace(nil, nil)
	s.ending.Wait()
}

// clientOf returns the client that c asks for.
func clientOf(c promconfig.TracingConfig) (otlptrace.Client, error) {
	tls, err := commonconfig.NewTLSConfig(&c.TLSConfig)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w; correct it, or let promwarp's user read the file", err)
	}
	if c.ClientType == promconfig.TracingClientHTTP {
		options := []otlptracehttp.Option{otlptracehttp.WithEndpoint(c.Endpoint), otlptracehttp.WithHeaders(c.Headers)}
		if c.Insecure {
			options = append(options, otlptracehttp.WithInsecure())
		} else {
			options = append(options, otlptracehttp.WithTLSClientConfig(tls))
		}
		if c.Compression == promconfig.GzipCompression {
			options = append(options, otlptracehttp.WithCompression(otlptracehttp.GzipCompression))
		}
		if c.Timeout > 0 {
			options = append(options, otlptracehttp.WithTimeout(time.Duration(c.Timeout)))
		}
		return otlptracehttp.NewClient(options...), nil
	}
	options := []otlptracegrpc.Option{otlptracegrpc.WithEndpoint(c.Endpoint), otlptracegrpc.WithHeaders(c.Headers)}
	if c.Insecure {
		options = append(options, otlptracegrpc.WithInsecure())
	} else {
		options = append(options, otlptracegrpc.WithTLSCredentials(credentials.NewTLS(tls)))
	}
	if c.Compression != "" {
		options = append(options, otlptracegrpc.WithCompressor(c.Compression))
	}
	if c.Timeout > 0 {
		options = append(options, otlptracegrpc.WithTimeout(time.Duration(c.Timeout)))
	}
	return otlptracegrpc.NewClient(options...), nil
}
