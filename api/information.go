package api

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/grafana/regexp"
	"github.com/prometheus/common/version"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/util/annotations"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/promwarp/promwarp/api/promapi"
)

// statusConfig answers with the configuration, and the external labels that remote read adds to
// series.
func (a *API) statusConfig(*http.Request) (any, annotations.Annotations, error) {
	c := a.o.Config()
	c.GlobalConfig.ExternalLabels = a.o.ExternalLabels()
	return map[string]string{"yaml": c.String()}, nil, nil
}

// selfMetrics answers with promwarp's own metrics, those whose names match metric_name_pattern.
func (a *API) selfMetrics(r *http.Request) (any, annotations.Annotations, error) {
	names, err := regexp.Compile("^(?:" + cmp.Or(r.FormValue("metric_name_pattern"), ".*") + ")$")
	if err != nil {
		return nil, nil, &promapi.ParameterError{Err: fmt.Errorf("invalid metric_name_pattern: %w", err)}
	}
	families, err := a.o.Gatherer.Gather()
	if err != nil {
		return nil, nil, promql.ErrStorage{Err: fmt.Errorf("error gathering self metrics: %w", err)} // which is internal
	}
	all := []json.RawMessage{}
	for _, f := range families {
		if !names.MatchString(f.GetName()) {
			continue
		}
		text, err := protojson.Marshal(f)
		if err != nil {
			return nil, nil, promql.ErrStorage{Err: fmt.Errorf("error marshaling metric family %q: %w", f.GetName(), err)}
		}
		all = append(all, text)
	}
	return all, nil, nil
}

// RuntimeInfo is what /api/v1/status/runtimeinfo says of the running program.
type RuntimeInfo struct {
	StartTime           time.Time `json:"startTime"`
	CWD                 string    `json:"CWD"`
	Hostname            string    `json:"hostname"`
	ServerTime          time.Time `json:"serverTime"`
	ReloadConfigSuccess bool      `json:"reloadConfigSuccess"`
	LastConfigTime      time.Time `json:"lastConfigTime"`
	CorruptionCount     int64     `json:"corruptionCount"` // of a write-ahead log, which there is none of
	GoroutineCount      int       `json:"goroutineCount"`
	GOMAXPROCS          int       `json:"GOMAXPROCS"`
	GOMEMLIMIT          int64     `json:"GOMEMLIMIT"`
	GOGC                string    `json:"GOGC"`
	GODEBUG             string    `json:"GODEBUG"`
	StorageRetention    string    `json:"storageRetention"` // empty: nothing is stored
}

// NewRuntimeInfo describes the running program.
func NewRuntimeInfo(start time.Time) RuntimeInfo {
	cwd, _ := os.Getwd()
	host, _ := os.Hostname()
	return RuntimeInfo{
		StartTime:           start.UTC(),
		CWD:                 cwd,
		Hostname:            host,
		ServerTime:          time.Now().UTC(),
		ReloadConfigSuccess: true,
		LastConfigTime:      start.UTC(),
		GoroutineCount:      runtime.NumGoroutine(),
		GOMAXPROCS:          runtime.GOMAXPROCS(0),
		GOMEMLIMIT:          debug.SetMemoryLimit(-1),
		GOGC:                os.Getenv("GOGC"),
		GODEBUG:             os.Getenv("GODEBUG"),
	}
}

// versions say what is running: the version is that of the Prometheus inside.
type versions struct {
	Version   string `json:"version"`
	Revision  string `json:"revision"`
	Branch    string `json:"branch"`
	BuildUser string `json:"buildUser"`
	BuildDate string `json:"buildDate"`
	GoVersion string `json:"goVersion"`
}

func newVersions() versions {
	return versions{
		Version:   PrometheusVersion,
		Revision:  version.GetRevision(),
		Branch:    version.Branch,
		BuildUser: version.BuildUser,
		BuildDate: version.BuildDate,
		GoVersion: runtime.Version(),
	}
}

// buildInfo answers /api/v1/status/buildinfo. Clients, Grafana among them,
// choose what they ask for by the version, so it is that of the Prometheus
// inside; promwarp's own is beside it. There must be no "features": Grafana
// takes a server with one for Mimir.
func buildInfo(w http.ResponseWriter, _ *http.Request) {
	promapi.Data(w, struct {
		versions
		Application        string `json:"application"`
		ApplicationVersion string `json:"applicationVersion"`
	}{newVersions(), "promwarp", version.Version})
}

// version answers /version. Prometheus says nothing of its content type either.
func (a *API) version(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_ = json.NewEncoder(w).Encode(newVersions())
}

// PrometheusVersion is the release of the Prometheus whose engine is inside. Its Go module is
// v0.(100·major+minor).patch.
const PrometheusVersion = "3.15.0"

// liveNotifications tells a browser that there is nothing to wait for, as Prometheus does.
func (a *API) liveNotifications(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Connection", "keep-alive")
	w.WriteHeader(http.StatusNoContent)
}

// openAPIPath is where promwarp's own endpoints are described as an OpenAPI document. The upstream
// describes Prometheus's, at /api/v1/openapi.yaml.
const openAPIPath = "/openapi.json"

//go:embed openapi.yaml
var openAPIText []byte

// openAPI answers with the description of promwarp's own endpoints: openapi.yaml as JSON, with the
// program's version.
func openAPI(w http.ResponseWriter, _ *http.Request) {
	var doc map[string]any
	err := yaml.Unmarshal(openAPIText, &doc)
	delete(doc, "x-values")
	if info, ok := doc["info"].(map[string]any); ok && version.Version != "" {
		info["version"] = version.Version
	}
	b, failed := json.Marshal(doc)
	if err = cmp.Or(err, failed); err != nil {
		promapi.Error(w, http.StatusInternalServerError, promapi.Internal, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b) // an error is the client's, which has gone
}
