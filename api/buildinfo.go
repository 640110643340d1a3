package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"strings"

	"github.com/prometheus/common/version"
	v1 "github.com/prometheus/prometheus/web/api/v1"

	"github.com/promwarp/promwarp/api/respond"
)

// buildInfo answers /api/v1/status/buildinfo. Clients, Grafana among them,
// choose what they ask for by the version, so it is that of the Prometheus
// inside; promwarp's own is beside it. There must be no "features": Grafana
// takes a server with one for Mimir.
func (a *API) buildInfo(w http.ResponseWriter, r *http.Request) {
	a.compressed(a.cors(http.HandlerFunc(buildInfo))).ServeHTTP(w, r)
}

func buildInfo(w http.ResponseWriter, _ *http.Request) {
	respond.Data(w, struct {
		v1.PrometheusVersion
		Application        string `json:"application"`
		ApplicationVersion string `json:"applicationVersion"`
	}{
		PrometheusVersion:  versionInfo(),
		Application:        "promwarp",
		ApplicationVersion: version.Version,
	})
}

// version answers /version. Prometheus says nothing of its content type either.
func (a *API) version(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_ = json.NewEncoder(w).Encode(versionInfo())
}

// versionInfo says what is running: the version is that of the Prometheus inside.
func versionInfo() v1.PrometheusVersion {
	return v1.PrometheusVersion{
		Version:   PrometheusVersion(),
		Revision:  version.GetRevision(),
		Branch:    version.Branch,
		BuildUser: version.BuildUser,
		BuildDate: version.BuildDate,
		GoVersion: runtime.Version(),
	}
}

// releaseOf is the Prometheus release of a version of its Go module: v0.315.1
// is 3.15.1.
func releaseOf(module string) string {
	parts := strings.SplitN(strings.TrimPrefix(module, "v"), ".", 3)
	if len(parts) == 3 && parts[0] == "0" {
		if n, err := strconv.Atoi(parts[1]); err == nil {
			return fmt.Sprintf("%d.%d.%s", n/100, n%100, parts[2])
		}
	}
	return strings.TrimPrefix(module, "v")
}
