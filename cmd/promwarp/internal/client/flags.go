package client

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
	commonconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
)

// DefaultURL is where promwarp serve listens unless it is told otherwise.
const DefaultURL = "http://localhost:9201"

// Envar names the environment variable that has the URL where --url is not given.
const Envar = "PROMWARP_URL"

// Flags say whom to ask, and how.
type Flags struct {
	URL     string
	Given   bool // --url is on the command line
	HTTP    string
	Timeout time.Duration // the default before Add, if it is not 5m
}

// Add declares the flags. An empty otherwise means that a server is always asked; else it says what
// happens without a URL.
func (f *Flags) Add(cmd *kingpin.CmdClause, otherwise string) {
	help, initial := "Base URL of the promwarp or Prometheus to ask.", DefaultURL
	if otherwise != "" {
		help, initial = "Base URL of the promwarp to ask. "+otherwise, ""
	}
	cmd.Flag("url", help).PlaceHolder("URL").Default(initial).Envar(Envar).IsSetByUser(&f.Given).StringVar(&f.URL)
	cmd.Flag("http.config.file", "File with credentials, TLS and headers for it, as promtool takes it: https://prometheus.io/docs/prometheus/latest/configuration/promtool").PlaceHolder("FILE").StringVar(&f.HTTP)
	cmd.Flag("timeout", "Longest to wait for an answer.").Default(model.Duration(cmp.Or(f.Timeout, 5*time.Minute)).String()).DurationVar(&f.Timeout)
}

// HTTPConfig reads the file with credentials; without one it is the default.
func (f *Flags) HTTPConfig() (commonconfig.HTTPClientConfig, error) {
	if f.HTTP == "" {
		return commonconfig.DefaultHTTPClientConfig, nil
	}
	c, _, err := commonconfig.LoadHTTPConfigFile(f.HTTP)
	if err != nil {
		return commonconfig.HTTPClientConfig{}, config.Usagef("--http.config.file %s: %w", f.HTTP, err)
	}
	return *c, nil
}

// Client returns the client of the server at a URL that the flag of that name gave.
func (f *Flags) Client(flag, text string) (*Client, error) {
	base, err := parseURL(text)
	if err != nil {
		return nil, config.Usagef("--%s %q: %w", flag, text, err)
	}
	c, err := f.HTTPConfig()
	if err != nil {
		return nil, err
	}
	transport, err := commonconfig.NewRoundTripperFromConfig(c, "promwarp", commonconfig.WithKeepAlivesDisabled())
	if err != nil {
		return nil, config.Usagef("--http.config.file %s: %w", f.HTTP, err)
	}
	return &Client{base: base, flag: flag, http: http.Client{Transport: transport, Timeout: f.Timeout}}, nil
}

// parseURL reads a base URL, which may lack its scheme.
func parseURL(text string) (*url.URL, error) {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, err
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errURL
	}
	u.RawQuery, u.Fragment = "", ""
	return u, nil
}
