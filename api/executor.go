package api

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/prometheus/prometheus/util/httputil"

	"github.com/promwarp/promwarp/api/params"
	"github.com/promwarp/promwarp/api/respond"
	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/plan"
)

// withExecutor reads the parameters executor, strict, exact and stats of the request into its
// context: which executor evaluates the query, how exactly, and whether with statistics.
func (a *API) withExecutor(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := params.ReadForm(r, a.o.MaxBodyBytes)
		if r.MultipartForm != nil {
			defer r.MultipartForm.RemoveAll() // net/http does so of its own request only
		}
		if err != nil {
			httputil.SetCORS(w, a.o.CORSOrigin, r)
			params.FormError(w, err)
			return
		}
		// params.Bounded has read forms in one part; the others come as JSON or in several parts.
		if r.MultipartForm != nil || r.Method == http.MethodPost && len(r.PostForm) == 0 {
			if name, err := params.CheckForm(a.o.Limits, r.Form); err != nil {
				httputil.SetCORS(w, a.o.CORSOrigin, r)
				params.BeyondLimits(w, name, err)
				return
			}
		}
		if name, err := params.Long(r.Form); err != nil {
			httputil.SetCORS(w, a.o.CORSOrigin, r)
			respond.Invalid(w, name, err)
			return
		}
		mode, err := engine.ParseMode(r.FormValue("executor"))
		if err != nil {
			httputil.SetCORS(w, a.o.CORSOrigin, r)
			respond.Invalid(w, "executor", err)
			return
		}
		strict := false
		if s := r.FormValue("strict"); s != "" {
			if strict, err = strconv.ParseBool(s); err != nil {
				httputil.SetCORS(w, a.o.CORSOrigin, r)
				respond.Invalid(w, "strict", fmt.Errorf("cannot parse %.100q: use true or false", s))
				return
			}
		}
		var exact plan.Exact
		if err := exact.UnmarshalText([]byte(r.FormValue("exact"))); err != nil {
			httputil.SetCORS(w, a.o.CORSOrigin, r)
			respond.Invalid(w, "exact", err)
			return
		}
		ctx := engine.WithExact(engine.WithMode(r.Context(), mode, strict), exact)
		if r.FormValue("stats") != "" {
			ctx = engine.WithStatistics(ctx)
		}
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}
