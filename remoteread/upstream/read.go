package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"go.yaml.in/yaml/v2"

	"github.com/promwarp/promwarp/remoteread/urltext"
)

const (
	// readTimeout is how long one request may take.
	readTimeout = 10 * time.Second
	// maxAnswer is the most bytes of an answer. A configuration has all scrape
	// configurations in it.
	maxAnswer = 64 << 20
)

// noAPIError is for a server that does not have what was asked for, or does not give it
// to promwarp. Asking again does not help.
type noAPIError struct{ why string }

func (e *noAPIError) Error() string { return e.why }

// source asks a server's HTTP API.
type source struct {
	base   *url.URL // without /api/v1
	client *http.Client
}

// get asks for a path below /api/v1 and returns the body of the answer.
func (s *source) get(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readTimeout, fmt.Errorf("no answer within %s", readTimeout))
	defer cancel()
	u := s.base.JoinPath("/api/v1", path)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, urltext.Err(err)
	}
	shown := urltext.Of(u)
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", shown, urltext.Err(err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", shown, err)
	case len(body) > maxAnswer:
		return nil, &noAPIError{fmt.Sprintf("%s answers with more than %d bytes", shown, maxAnswer)}
	case resp.StatusCode >= 500 && resp.StatusCode != http.StatusNotImplemented, resp.StatusCode == http.StatusTooManyRequests:
		return nil, fmt.Errorf("%s answers with status %d", shown, resp.StatusCode)
	case resp.StatusCode != http.StatusOK:
		return nil, &noAPIError{fmt.Sprintf("%s answers with status %d", shown, resp.StatusCode)}
	}
	return body, nil
}

// decode reads the data of an answer of Prometheus's API.
func decode(path string, body []byte, data any) error {
	answer := struct {
		Status string `json:"status"`
		Data   any    `json:"data"`
	}{Data: data}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Status != "success" {
		return &noAPIError{"/api/v1" + path + " does not answer as a Prometheus does"}
	}
	return nil
}

// configured is what a server's configuration says.
type configured struct {
	external labels.Labels
	interval time.Duration // 0 if it says nothing of it
}

const pathConfig = "/status/config"

// parseConfig reads an answer of /api/v1/status/config.
func parseConfig(body []byte) (c configured, err error) {
	var shown struct {
		YAML string `json:"yaml"`
	}
	if err := decode(pathConfig, body, &shown); err != nil {
		return c, err
	}
	var global struct {
		Global struct {
			ExternalLabels     map[string]string `yaml:"external_labels"`
			EvaluationInterval model.Duration    `yaml:"evaluation_interval"`
		} `yaml:"global"`
	}
	if err := yaml.Unmarshal([]byte(shown.YAML), &global); err != nil {
		return c, &noAPIError{"/api/v1" + pathConfig + " does not show the configuration of a Prometheus"}
	}
	c.external = labels.FromMap(global.Global.ExternalLabels)
	c.interval = time.Duration(global.Global.EvaluationInterval)
	return c, nil
}

// program is what a server was started as.
type program struct {
	features      Features
	featuresKnown bool
	lookback      time.Duration
	version       string
	unknown       []string
}

// readProgram reads what a server was started as. It fails only where asking again may
// help.
func (s *source) readProgram(ctx context.Context) (p program, err error) {
	var gone *noAPIError
	lack := func(what string, err error) error {
		if errors.As(err, &gone) {
			p.unknown = append(p.unknown, fmt.Sprintf("%s: %v", what, err))
			return nil
		}
		return err
	}
	flags := map[string]string{}
	if err := lack("features and the lookback delta", s.into(ctx, "/status/flags", &flags)); err != nil {
		return p, err
	}
	if list, ok := flags["enable-feature"]; ok {
		p.features, p.featuresKnown = knownFeatures(list), true
	}
	if d, err := model.ParseDuration(flags["query.lookback-delta"]); err == nil {
		p.lookback = time.Duration(d)
	}
	// A Prometheus of before 3.8 has no such list, so nothing is said of one that lacks.
	registry := map[string]map[string]bool{}
	switch err := s.into(ctx, "/features", &registry); {
	case err == nil && len(registry["promql"]) > 0:
		p.features |= featuresIn(registry)
		p.featuresKnown = true
		p.unknown = nil
	case err != nil && !errors.As(err, &gone):
		return p, err
	}
	var build struct {
		Version string `json:"version"`
	}
	if err := lack("the version", s.into(ctx, "/status/buildinfo", &build)); err != nil {
		return p, err
	}
	p.version = build.Version
	return p, nil
}

// into asks for a path and decodes the answer's data.
func (s *source) into(ctx context.Context, path string, data any) error {
	body, err := s.get(ctx, path)
	if err != nil {
		return err
	}
	return decode(path, body, data)
}
