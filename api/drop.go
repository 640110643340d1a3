package api

import (
	"errors"
	"math"
	"net/http"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/api/promapi"
	"github.com/promwarp/promwarp/cache"
)

// adminDisabled refuses what the admin API alone does.
const adminDisabled = "admin APIs disabled; --web.enable-admin-api enables them"

// Dropper forgets what it keeps, so that it is fetched again; see cache.Drop.
type Dropper interface {
	Drop(mint, maxt int64, selectors ...[]*labels.Matcher) (cache.Dropped, error)
}

// drop has the cache forget what any of the selectors match[] may match from
// start to end, as after a deletion or a backfill upstream. Times are those of a
// query; what is not given has no bound. all=true stands for everything.
func (a *API) drop(w http.ResponseWriter, r *http.Request) {
	if a.o.Dropper == nil {
		promapi.Error(w, http.StatusServiceUnavailable, promapi.Unavailable, adminDisabled)
		return
	}
	if err := r.ParseForm(); err != nil {
		promapi.FormError(w, err)
		return
	}
	selectors, err := a.o.Parser.ParseMetricSelectors(r.Form["match[]"])
	if err != nil {
		promapi.Invalid(w, "match[]", err)
		return
	}
	mint, maxt := int64(math.MinInt64), int64(math.MaxInt64)
	given := len(selectors) > 0
	for parameter, to := range map[string]*int64{"start": &mint, "end": &maxt} {
		s := r.FormValue(parameter)
		if s == "" {
			continue
		}
		given = true
		t, err := promapi.Time(s)
		if err != nil {
			promapi.Invalid(w, parameter, err)
			return
		}
		*to = t.UnixMilli()
	}
	switch {
	case mint > maxt:
		promapi.Invalid(w, "end", errors.New("end timestamp must not be before start time"))
		return
	case !given && r.FormValue("all") != "true":
		promapi.Error(w, http.StatusBadRequest, promapi.BadData, "say what to drop: match[], start and end bound it, all=true drops everything")
		return
	}
	dropped, err := a.o.Dropper.Drop(mint, maxt, selectors...)
	if err != nil {
		promapi.Error(w, http.StatusInternalServerError, promapi.Internal, err.Error())
		return
	}
	a.logger.Info("Dropped cached tiles on request", "match", r.Form["match[]"], "start", r.FormValue("start"), "end", r.FormValue("end"),
		"selectors", dropped.Selectors, "tiles", dropped.Tiles)
	promapi.Data(w, dropped)
}
