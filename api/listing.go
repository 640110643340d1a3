package api

import (
	"net/http"

	"github.com/gorilla/mux"

	"github.com/promwarp/promwarp/api/admit"
	"github.com/promwarp/promwarp/api/federate"
	"github.com/promwarp/promwarp/api/forward"
	"github.com/promwarp/promwarp/api/respond"
)

// listings opens the doors that remote read cannot answer, and those that only a running Prometheus
// can.
func (a *API) listings(m *mux.Router, f *forward.Forwarder) {
	local := a.local()
	list := func(path string) http.Handler { return a.says(local[path]) }
	only := respond.Always(http.StatusNotFound, respond.NotFound, "promwarp reads a data directory; only a running Prometheus answers this")
	switch len(a.o.Remotes) {
	case 0:
	case 1:
		only = f.Lists()
		list = func(string) http.Handler { return only }
	default:
		all := a.compressed(f.Lists())
		list = func(string) http.Handler { return all }
		only = respond.Always(http.StatusNotFound, respond.NotFound, "promwarp reads from several servers, each of which answers this for itself; ask them")
	}
	for path, methods := range listed {
		a.door(m, prefix+path, methods, a.gate.List(list(path), a.respondNotAdmitted))
	}
	for path, methods := range upstreamOnly {
		a.door(m, prefix+path, methods, a.gate.List(only, a.respondNotAdmitted))
	}
}

// federation returns what answers /federate. Where one server is read from, that
// answers, which knows its external labels and the head of its data best; where it
// has no such door, or there are several servers or a data directory, the answer is
// made here from the samples, as Prometheus makes it.
func (a *API) federation(f *forward.Forwarder) http.Handler {
	d := federate.New(federate.Options{
		Queryable:      a.wholly(),
		Parser:         a.o.Parser,
		LookbackDelta:  a.o.LookbackDelta,
		ExternalLabels: a.o.ExternalLabels,
		Logger:         a.logger,
		NotePanic:      a.guard.NotePanic,
	})
	here := a.compressed(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := a.gate.Query(w, r, "", func(r *http.Request, t *admit.Turn) { d.Answer(w, r, t) }); err != nil {
			d.Failed(w, r, err)
		}
	}))
	if len(a.o.Remotes) != 1 || a.o.Remotes[0].Base == nil {
		return here
	}
	return a.gate.List(f.To(a.o.Remotes[0], here), d.Failed)
}
