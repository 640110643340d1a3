package api

import (
	"net/http"

	"github.com/prometheus/prometheus/storage"

	remoteserve "github.com/promwarp/promwarp/remoteread/serve"
	"github.com/promwarp/promwarp/selection"
)

// wholly is what is read where the answer cannot carry the warning that an upstream is missing, and
// whoever has it may keep it as whole.
func (a *API) wholly() storage.SampleAndChunkQueryable {
	return selection.For(a.o.Queryable, selection.Request{Whole: true})
}

// newRead returns the doors for remote read by their paths.
func (a *API) newRead() (map[string]http.Handler, error) {
	o := a.o.Read
	o.Queryable, o.ExternalLabels = a.wholly(), a.o.ExternalLabels
	o.Limits, o.Memory, o.TooLarge, o.Timeout = a.o.Limits, a.o.Memory, a.o.TooLarge, a.o.Timeout
	o.Logger, o.Registerer = a.logger, a.o.Registerer
	o.Client = a.gate.Client
	o.Alone = func() bool { return o.Queue.Running() == 1 && len(a.gate.Requests()) == 0 }
	plain, err := remoteserve.New(o)
	if err != nil {
		return nil, err
	}
	doors := map[string]http.Handler{prefix + "/read": plain}
	for name, reduce := range a.o.ReadReductions {
		doors[prefix+"/read/"+name] = plain.Reducing(reduce)
	}
	return doors, nil
}
