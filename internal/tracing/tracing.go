// Package tracing makes OpenTelemetry spans of what happens to a request.
//
// Receive begins the span of a request at a door, as a part of its client's trace if it has one.
// Start begins one of a stage. Inject puts the trace into requests to upstreams, so that their
// spans are part of it. Where spans are not collected, or the trace is not sampled, Start is a look
// into the context and makes nothing.
package tracing

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// name is that of the library that makes the spans.
const name = "github.com/promwarp/promwarp"

// IDHeader is the header of answers that has the request's trace.
const IDHeader = "X-Trace-Id"

var propagator propagation.TraceContext

// Receive begins the span of a request at a door, and says in the answer's header what its trace
// is. The request is the one to answer.
func Receive(w http.ResponseWriter, r *http.Request, door string) (*http.Request, trace.Span) {
	ctx := propagator.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, span := otel.Tracer(name).Start(ctx, r.Method+" "+door, trace.WithSpanKind(trace.SpanKindServer))
	if !span.SpanContext().IsValid() {
		return r, span // the client's trace is not known either
	}
	w.Header().Set(IDHeader, ID(ctx))
	return r.WithContext(ctx), span
}

// Start begins the span of a stage. It must be ended. The span of a trace that is not collected is
// that of ctx, of which nothing is noted.
func Start(ctx context.Context, stage string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, parent
	}
	return parent.TracerProvider().Tracer(name).Start(ctx, stage, options...)
}

// End ends a span, which err failed if it is not nil.
func End(span trace.Span, err error) {
	if span.IsRecording() {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

// Inject puts the trace of ctx, if it has one, into a header.
func Inject(ctx context.Context, h http.Header) { propagator.Inject(ctx, propagation.HeaderCarrier(h)) }

// ID is the trace of ctx in hexadecimal, empty if it has none.
func ID(ctx context.Context) string {
	c := trace.SpanContextFromContext(ctx)
	if !c.HasTraceID() {
		return ""
	}
	return c.TraceID().String()
}
