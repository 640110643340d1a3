package api

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/gorilla/mux"
	"github.com/prometheus/prometheus/util/httputil"

	"github.com/promwarp/promwarp/api/promapi"
)

// usualPath lets requests find their door however their path is written: it returns the request with
// only such characters escaped in the path as mean something else unescaped. One with empty elements
// or dots is redirected, as Prometheus does; ok is then false.
func usualPath(w http.ResponseWriter, r *http.Request) (usual *http.Request, ok bool) {
	escaped := r.URL.EscapedPath()
	clean := path.Clean("/" + escaped)
	if clean != "/" && strings.HasSuffix(escaped, "/") || clean == prefix {
		clean += "/"
	}
	switch {
	case r.RequestURI == "*":
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusBadRequest)
		return nil, false
	case clean != escaped && r.Method != http.MethodConnect:
		u := url.URL{Path: clean, RawQuery: r.URL.RawQuery}
		http.Redirect(w, r, u.String(), http.StatusTemporaryRedirect)
		return nil, false
	case r.URL.RawPath != "":
		u := *r.URL
		u.RawPath = leastEscaped(escaped)
		r = shallowCopy(r, &u)
	}
	return r, true
}

// shallowCopy returns r with another URL.
func shallowCopy(r *http.Request, u *url.URL) *http.Request {
	c := new(http.Request)
	*c = *r
	c.URL = u
	return c
}

// leastEscaped returns an escaped path with only what must be escaped.
func leastEscaped(path string) string {
	elements := strings.Split(path, "/")
	for i, e := range elements {
		if plain, err := url.PathUnescape(e); err == nil {
			elements[i] = url.PathEscape(plain)
		}
	}
	return strings.Join(elements, "/")
}

// elsewhere answers requests for which there is no endpoint. Requests that miss one by a
// slash at the end, or by capital letters, are redirected to it, as Prometheus's
// router does.
func (a *API) elsewhere(doors *mux.Router) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodOptions && strings.HasPrefix(r.URL.Path, prefix+"/") {
			a.options(w, r)
			return
		}
		if u := near(doors, r); u != nil {
			code := http.StatusTemporaryRedirect
			if r.Method == http.MethodGet {
				code = http.StatusMovedPermanently
			}
			http.Redirect(w, r, u.String(), code)
			return
		}
		promapi.Error(w, http.StatusNotFound, promapi.NotFound, fmt.Sprintf("promwarp has no %s; / lists what it has", r.URL.Path))
	}
}

// near returns the URL with which r would have found a door, or nil.
func near(doors *mux.Router, r *http.Request) *url.URL {
	u := *r.URL
	u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/"), strings.TrimSuffix(u.RawPath, "/")
	if template(doors, r, &u) != "" {
		return &u
	}
	u.Path, u.RawPath = strings.ToLower(u.Path), ""
	if t := template(doors, r, &u); t != "" && !strings.Contains(t, "{") {
		return &u
	}
	return nil
}

// template is the path of the door that r would find with another URL, or empty.
func template(doors *mux.Router, r *http.Request, u *url.URL) string {
	var m mux.RouteMatch
	if !doors.Match(shallowCopy(r, u), &m) || m.MatchErr != nil {
		return ""
	}
	t, _ := m.Route.GetPathTemplate() // it was made from one
	return t
}

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

// orPage has answer answer, but for links to Prometheus's page /query, which carry what is
// to be drawn in g0.expr, g1.expr and so on, and no query. They are redirected to
// /graph, which every version of Prometheus has.
func (a *API) orPage(answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); r.Method == http.MethodGet && q.Has("g0.expr") && !q.Has("query") {
			u := *r.URL
			u.Path, u.RawPath = "/graph", ""
			a.redirectPage(w, shallowCopy(r, &u))
			return
		}
		answer(w, r)
	}
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

// options tells a browser what a page of another origin may do, which is the same of
// all doors that such pages may use.
func (a *API) options(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Vary", "Accept-Encoding")
	httputil.SetCORS(w, a.o.CORSOrigin, r)
	w.WriteHeader(http.StatusNoContent)
}
