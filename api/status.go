package api

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/promwarp/promwarp/api/promapi"
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
			promapi.Invalid(w, "limit", fmt.Errorf("%.100q is no number of selectors", text))
			return
		}
		most = n
	}
	all := []cache.Contents{}
	if a.o.Caches != nil {
		all = append(all, a.o.Caches(most)...)
	}
	promapi.Data(w, all)
}

// gpuStatus says what the GPUs are and have, and what the machine was measured to do.
func (a *API) gpuStatus(w http.ResponseWriter, _ *http.Request) {
	if a.o.GPUs == nil {
		promapi.Data(w, (*placement.Placer)(nil).Report())
		return
	}
	promapi.Data(w, a.o.GPUs())
}

// queryStatus lists the queries under way.
func (a *API) queryStatus(w http.ResponseWriter, _ *http.Request) {
	promapi.Data(w, a.gate.Requests())
}

// cancel cancels the query that the parameter id names.
func (a *API) cancel(w http.ResponseWriter, r *http.Request) {
	if !a.o.Cancel {
		promapi.Error(w, http.StatusServiceUnavailable, promapi.Unavailable, adminDisabled)
		return
	}
	if err := r.ParseForm(); err != nil {
		promapi.FormError(w, err)
		return
	}
	id, err := strconv.ParseUint(r.FormValue("id"), 10, 64)
	if err != nil {
		promapi.Invalid(w, "id", fmt.Errorf("%.100q is no number of a query; /api/v1/status/queries lists them", r.FormValue("id")))
		return
	}
	if !a.gate.Cancel(id) {
		promapi.Error(w, http.StatusNotFound, promapi.NotFound, fmt.Sprintf("there is no query %d under way", id))
		return
	}
	a.logger.Info("Cancelled a query on request", "id", id)
	promapi.Data(w, id)
}
