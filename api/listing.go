package api

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/prometheus/common/model"

	"github.com/promwarp/promwarp/api/federate"
	"github.com/promwarp/promwarp/api/forward"
	"github.com/promwarp/promwarp/api/respond"
)

// listing returns what answers the doors that remote read cannot answer, and
// those that only a running Prometheus can.
func (a *API) listing(f *forward.Forwarder) (list, only http.Handler) {
	switch len(a.o.Remotes) {
	case 0:
		list = escapeName(a.v1)
		only = respond.Always(http.StatusNotFound, respond.NotFound, "promwarp reads a data directory; only a running Prometheus answers this")
	case 1:
		list = f.Lists()
		only = list
	default:
		list = a.compressed(f.Lists())
		only = respond.Always(http.StatusNotFound, respond.NotFound, "promwarp reads from several servers, each of which answers this for itself; ask them")
	}
	return a.gate.List(list, a.respondNotAdmitted), a.gate.List(only, a.respondNotAdmitted)
}

// federation returns what answers /federate. Where one server is read from, that
// answers, which knows its external labels and the head of its data best; where it
// has no such door, or there are several servers or a data directory, the answer is
// made here from the samples, as Prometheus makes it.
func (a *API) federation(f *forward.Forwarder) http.Handler {
	d := federate.New(federate.Options{
		Queryable:      a.o.Queryable,
		Parser:         a.o.Parser,
		LookbackDelta:  a.o.LookbackDelta,
		ExternalLabels: a.o.ExternalLabels,
		Logger:         a.logger,
		NotePanic:      a.guard.NotePanic,
	})
	here := a.compressed(a.gate.Query(d, d.Failed))
	if len(a.o.Remotes) != 1 || a.o.Remotes[0].Base == nil {
		return here
	}
	return a.gate.List(f.To(a.o.Remotes[0], here), d.Failed)
}

// escapeName lets Prometheus's API answer for a label whose name holds an
// escaped slash, which its router does not find, by escaping the name in
// Prometheus's own way.
func escapeName(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, ok := strings.CutPrefix(r.URL.EscapedPath(), prefix+"/label/")
		name, isLabel := strings.CutSuffix(name, "/values")
		if ok && isLabel && strings.Contains(name, "%") {
			if plain, err := url.PathUnescape(name); err == nil && strings.Contains(plain, "/") {
				if !strings.HasPrefix(plain, "U__") {
					plain = model.EscapeName(plain, model.ValueEncodingEscaping)
				}
				r = r.Clone(r.Context())
				r.URL.Path, r.URL.RawPath = prefix+"/label/"+plain+"/values", ""
			}
		}
		h.ServeHTTP(w, r)
	})
}
