package upstream

import (
	"context"
	"net/http"
	"strings"
)

// Kind is what a server turns out to be.
type Kind string

// The servers that are told apart. Neither of these has remote read.
const (
	UnknownKind     Kind = ""
	ThanosQuery     Kind = "Thanos Query"
	VictoriaMetrics Kind = "VictoriaMetrics"
)

// Identify returns what kind of server answers at the watcher's base URL.
func (w *Watcher) Identify(ctx context.Context) Kind {
	if w.source == nil {
		return UnknownKind
	}
	// Thanos's own; data lists the stores by kind.
	var stores map[string]any
	if w.source.into(ctx, "/stores", &stores) == nil {
		return ThanosQuery
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.source.base.JoinPath("/metrics").String(), nil)
	if err != nil {
		return UnknownKind
	}
	resp, err := w.source.client.Do(req)
	if err != nil {
		return UnknownKind
	}
	defer resp.Body.Close()
	if resp.Header.Get("X-Server-Hostname") != "" { // on each of its answers
		return VictoriaMetrics
	}
	return UnknownKind
}

// Instead says what to point promwarp at instead of a server without remote read.
func (k Kind) Instead() string {
	const (
		thanos   = "for Thanos, list the Prometheus of each sidecar under remote_read, or have a Thanos sidecar read from promwarp, which then is a leaf of the Querier"
		victoria = "VictoriaMetrics has none, so promwarp cannot stand in front of it"
		others   = "point promwarp at a Prometheus, a Mimir or a Cortex"
	)
	switch k {
	case ThanosQuery:
		return "it is a " + string(k) + ", which has none; " + thanos
	case VictoriaMetrics:
		return victoria
	}
	return strings.Join([]string{others, thanos, victoria}, "; ")
}
