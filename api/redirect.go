package api

import (
	"net/http"
	"net/url"

	"github.com/promwarp/promwarp/api/promapi"
)

// pages are those of Prometheus's web interface, which promwarp has not: links to
// them, which dashboards and alerts carry, lead to the upstream's.
var pages = []string{
	"/graph", "/classic/graph", "/alerts", "/rules", "/targets", "/status", "/config", "/flags", "/service-discovery",
	"/tsdb-status", "/alertmanager-discovery",
}

// redirectPage redirects a browser to the same page of the upstream.
func (a *API) redirectPage(w http.ResponseWriter, r *http.Request) {
	base := a.pagesURL()
	if base == nil {
		promapi.Error(w, http.StatusNotFound, promapi.NotFound,
			"promwarp has no such page, and it does not know where the upstream's are; set web.upstream-url to the base URL at which browsers reach the upstream, such as http://prometheus:9090")
		return
	}
	u := base.JoinPath(r.URL.Path)
	u.RawQuery = r.URL.RawQuery
	http.Redirect(w, r, u.String(), http.StatusFound)
}

// orPage has h answer, but for links to Prometheus's page /query, which carry what is
// to be drawn in g0.expr, g1.expr and so on, and no query. They are redirected to
// /graph, which every version of Prometheus has.
func (a *API) orPage(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); r.Method == http.MethodGet && q.Has("g0.expr") && !q.Has("query") {
			u := *r.URL
			u.Path, u.RawPath = "/graph", ""
			a.redirectPage(w, shallowCopy(r, &u))
			return
		}
		h.ServeHTTP(w, r)
	})
}

// pagesURL is the base of the upstream's pages without what promwarp alone may
// know: credentials and parameters. nil when it is not known.
func (a *API) pagesURL() *url.URL {
	base := a.o.PagesURL
	if base == nil && len(a.o.Remotes) == 1 {
		base = a.o.Remotes[0].Base
	}
	if base == nil {
		return nil
	}
	return &url.URL{Scheme: base.Scheme, Host: base.Host, Path: base.Path, RawPath: base.RawPath}
}
