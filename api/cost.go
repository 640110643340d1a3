package api

import (
	"net/http"
	"time"

	"github.com/promwarp/promwarp/api/promapi"
)

// cost says what an instant query would cost, and ranged that of a range query, without running it
// or fetching anything. It takes the parameters of that query. The answer is a plan.Cost, whose
// estimate has the form of Prometheus's proposal 0089, with a warning for each selector of which
// nothing is known.
func (a *API) cost(ranged bool) func(http.ResponseWriter, *http.Request, *turn) {
	return func(w http.ResponseWriter, r *http.Request, t *turn) {
		p, err := promapi.ParseAs(ranged, r, time.Now())
		if err != nil {
			promapi.Error(w, http.StatusBadRequest, promapi.BadData, err.Error())
			return
		}
		c, err := a.o.Engine.Cost(r.Context(), t.of(p, false))
		t.Turn.Evaluated(nil)
		if err != nil {
			a.guard.NotePanic(err)
			if code, typ := promapi.Classify(err); typ != promapi.BadData && typ != promapi.Execution {
				promapi.Error(w, code, typ, err.Error())
				return
			}
			promapi.Invalid(w, "query", err)
			return
		}
		warnings := c.Warnings[:min(len(c.Warnings), mostAnnotations)]
		promapi.Warned(w, c, warnings, nil)
	}
}
