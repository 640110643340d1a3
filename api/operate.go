package api

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/api/page"
	"github.com/promwarp/promwarp/api/promapi"
	"github.com/promwarp/promwarp/cache"
)

// healthy answers as long as the program runs.
func (a *API) healthy(w http.ResponseWriter, _ *http.Request) {
	promapi.Text(w, http.StatusOK, "promwarp is healthy.\n")
}

// ready says whether requests should be sent here.
func (a *API) ready(w http.ResponseWriter, _ *http.Request) {
	notes, err := a.o.Ready()
	code, text := http.StatusOK, "promwarp is ready.\n"
	if err != nil {
		code, text = http.StatusServiceUnavailable, fmt.Sprintf("promwarp is not ready: %v\n", err)
	}
	for _, line := range append(notes, a.o.Known()...) {
		text += line + "\n"
	}
	promapi.Text(w, code, text)
}

// reload reads the configuration again.
func (a *API) reload(w http.ResponseWriter, _ *http.Request) {
	if !a.o.Lifecycle {
		a.quit(w, nil)
		return
	}
	if a.o.Reload == nil {
		promapi.Text(w, http.StatusNotFound, "there is no configuration to reload\n")
		return
	}
	if err := a.o.Reload(); err != nil {
		promapi.Text(w, http.StatusInternalServerError, fmt.Sprintf("failed to reload the configuration: %v\n", err))
		return
	}
	promapi.Text(w, http.StatusOK, "")
}

// quit refuses to end the program, in the words of a Prometheus whose lifecycle API is off.
func (a *API) quit(w http.ResponseWriter, _ *http.Request) {
	promapi.Text(w, http.StatusForbidden, "Lifecycle API is not enabled.")
}

// postOrPut has answer answer POST and PUT, and says to those who use GET that it takes
// nothing else, in Prometheus's words.
func postOrPut(answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Allow", "OPTIONS, POST, PUT")
			promapi.Text(w, http.StatusMethodNotAllowed, "Only POST or PUT requests allowed")
			return
		}
		answer(w, r)
	}
}

// index answers a browser with promwarp's page, and names the doors to all others.
func (a *API) index(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Vary", "Accept")
	if page.Wanted(r) {
		page.Index(w, r, a.o.Examples)
		return
	}
	promapi.Text(w, http.StatusOK, `promwarp: fast PromQL in front of Prometheus

/                     in a browser: promwarp's page
/api/v1/query         Prometheus's HTTP API: point a Grafana Prometheus data
/api/v1/query_range   source at this server's base URL
/api/v1/...
/api/v1/read          Prometheus remote read: list it under remote_read
/query                PromQL; start, end and step make it a range; resample
                      requests; format=json|csv|ndjson|arrow|parquet
/explain              how a query is evaluated; analyze=true runs it; format=json|text
/api/v1/backtest      POST: alerting rules on the past
/openapi.json         describes /query, /explain, /api/v1/backtest and those below
/federate             the newest samples of series, for a Prometheus to scrape
/graph                leads a browser to the upstream's page
/metrics              promwarp's own metrics
/version              whose engine it runs
/-/healthy  /-/ready  for probes
/-/reload             POST: read the configuration file again
/api/v1/admin/cache/drop  POST: forget cached samples (--web.enable-admin-api)
/api/v1/admin/queries/cancel  POST: cancel a query (--web.enable-admin-api)
/api/v1/status/queries, cache, gpus  what is under way, kept, and measured

executor=auto|cpu|gpu|prometheus and strict=true on a query choose who evaluates it, exact=bits asks for Prometheus's bits.
`)
}

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
	a.tried.Clear()
	a.logger.Info("Dropped cached tiles on request", "match", r.Form["match[]"], "start", r.FormValue("start"), "end", r.FormValue("end"),
		"selectors", dropped.Selectors, "tiles", dropped.Tiles)
	promapi.Data(w, dropped)
}

// mostSelectors is the most selectors of a cache that are listed unless the request says how many.
const mostSelectors = 200

// cacheStatus lists what the caches have.
func (a *API) cacheStatus(r *http.Request) (any, annotations.Annotations, error) {
	most := mostSelectors
	if text := r.FormValue("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, nil, promapi.WrongParameter("limit", fmt.Errorf("%.100q is no number of selectors", text))
		}
		most = n
	}
	return a.o.Caches(most), nil, nil
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
