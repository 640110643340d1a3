package api

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/prometheus/prometheus/util/httputil"

	"github.com/promwarp/promwarp/api/params"
	"github.com/promwarp/promwarp/api/respond"
	"github.com/promwarp/promwarp/planner"
)

// printedDepth is the most levels of a query whose form is asked for. Each level is
// indented by the one above it, so the answer grows with the square of the depth, and
// Prometheus's printer takes longer still: 10 s for 2000 levels.
const printedDepth = 500

// notDeep refuses queries that are too deep to be printed.
func (a *API) notDeep(h http.Handler) http.Handler {
	limits := a.o.Limits
	limits.Depth = printedDepth
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := params.ReadForm(r, a.o.MaxBodyBytes); err != nil {
			httputil.SetCORS(w, a.o.CORSOrigin, r)
			params.FormError(w, err)
			return
		}
		var beyond *planner.LimitError
		err := limits.Check(r.FormValue("query"))
		if errors.As(err, &beyond) && a.o.Limits.Check(r.FormValue("query")) == nil {
			httputil.SetCORS(w, a.o.CORSOrigin, r)
			respond.Invalid(w, "query", fmt.Errorf("it nests deeper than the %d levels that this door prints", printedDepth))
			return
		}
		h.ServeHTTP(w, r) // says what else is wrong
	})
}
