package api

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/promwarp/promwarp/api/params"
	"github.com/promwarp/promwarp/api/respond"
	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/planner/placement"
)

// mostSelectors is the most selectors of a cache that are listed unless the request says how many.
const mostSelectors = 200

// cacheStatus lists what the caches have.
func (a *API) cacheStatus(w http.ResponseWriter, r *http.Request) {
	most := mostSelectors
	if text := r.FormValue("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			respond.Invalid(w, "limit", fmt.Errorf("%.100q is no number of selectors", text))
			return
		}
		most = n
	}
	all := []cache.Contents{}
	if a.o.Caches != nil {
		all = append(all, a.o.Caches(most)...)
	}
	respond.Data(w, all)
}

// gpuStatus says what the GPUs are and have, and what the machine was measured to do.
func (a *API) gpuStatus(w http.ResponseWriter, _ *http.Request) {
	if a.o.GPUs == nil {
		respond.Data(w, (*placement.Placer)(nil).Report())
		return
	}
	respond.Data(w, a.o.GPUs())
}

// queryStatus lists the queries under way.
func (a *API) queryStatus(w http.ResponseWriter, _ *http.Request) {
	respond.Data(w, a.gate.Requests())
}

// cancel cancels the query that the parameter id names.
func (a *API) cancel(w http.ResponseWriter, r *http.Request) {
	if !a.o.Cancel {
		respond.Error(w, http.StatusServiceUnavailable, respond.Unavailable, adminDisabled)
		return
	}
	if err := r.ParseForm(); err != nil {
		params.FormError(w, err)
		return
	}
	id, err := strconv.ParseUint(r.FormValue("id"), 10, 64)
	if err != nil {
		respond.Invalid(w, "id", fmt.Errorf("%.100q is no number of a query; /api/v1/status/queries lists them", r.FormValue("id")))
		return
	}
	if !a.gate.Cancel(id) {
		respond.Error(w, http.StatusNotFound, respond.NotFound, fmt.Sprintf("there is no query %d under way", id))
		return
	}
	a.logger.Info("Cancelled a query on request", "id", id)
	respond.Data(w, id)
}
