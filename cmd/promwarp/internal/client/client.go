// Package client asks a promwarp or a Prometheus, over HTTP or inside this process.
//
// A form goes in; out comes an Answer, or an error that says what is wrong and what to do: nobody
// listens, credentials are missing, it is no Prometheus, or the server refused (compare.Refused). Start
// with Client.Ask; Embed starts a promwarp inside this process.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/promwarp/promwarp/engine/compare"
	"github.com/promwarp/promwarp/remoteread/urltext"
)

// Doors of Prometheus's API that answer PromQL.
const (
	Instant = "/api/v1/query"
	Ranged  = "/api/v1/query_range"
)

// Client asks one server. It is safe for concurrent use.
type Client struct {
	base *url.URL
	flag string // that gave the URL; empty of a promwarp inside this process
	http http.Client
	// Waiting, when set, is called before each request; what it returns, once the answer is there, or
	// of a copy begins to be.
	Waiting func() (stop func())
}

// Answer is what a server says in Prometheus's form.
type Answer struct {
	Data            json.RawMessage
	Warnings, Infos []string
	// Took is the time from sending the request to the end of the answer.
	Took time.Duration
}

// String is the server's URL, without secrets.
func (c *Client) String() string {
	if c.flag == "" {
		return "promwarp in this process"
	}
	return urltext.Of(c.base)
}

// URL is that of a path below the server's base.
func (c *Client) URL(path string) *url.URL {
	u := *c.base
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/")+path, ""
	return &u
}

// Ask posts a form and reads the whole answer.
func (c *Client) Ask(ctx context.Context, path string, form url.Values) (*Answer, error) {
	return c.read(ctx, http.MethodPost, path, form)
}

// Get asks for what a door shows.
func (c *Client) Get(ctx context.Context, path string, form url.Values) (*Answer, error) {
	return c.read(ctx, http.MethodGet, path, form)
}

// Text gets a door's answer that is text for people, such as that of /-/ready.
func (c *Client) Text(ctx context.Context, path string) (string, error) {
	defer c.waiting()()
	resp, err := c.send(ctx, http.MethodGet, path, nil, "text/plain")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	switch {
	case err != nil:
		return "", c.failed(ctx, err)
	case mediaType(resp) == "text/plain" && resp.StatusCode == http.StatusOK:
		return string(body), nil
	}
	return "", c.stranger(path, resp, body)
}

func (c *Client) read(ctx context.Context, method, path string, form url.Values) (*Answer, error) {
	defer c.waiting()()
	begin := time.Now()
	resp, err := c.send(ctx, method, path, form, "application/json")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(resp.Body); err != nil {
		return nil, c.failed(ctx, err)
	}
	took := time.Since(begin)
	e, err := c.parse(path, resp, body.Bytes())
	if err != nil {
		return nil, err
	}
	return &Answer{Data: e.Data, Warnings: e.Warnings, Infos: e.Infos, Took: took}, nil
}

// Copy posts a form and writes the answer, which must be of that media type, to w as it comes.
func (c *Client) Copy(ctx context.Context, w io.Writer, path string, form url.Values, kind string) error {
	stop := c.waiting()
	resp, err := c.send(ctx, http.MethodPost, path, form, kind)
	stop()
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if got := mediaType(resp); got != kind || resp.StatusCode != http.StatusOK {
		start, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		if err == nil {
			_, err = c.parse(path, resp, start)
		}
		if err == nil {
			err = fmt.Errorf("%s answers %s with %s in place of %s; ask a promwarp", c, path, got, kind)
		}
		return err
	}
	if _, err := io.Copy(w, resp.Body); err != nil {
		return c.failed(ctx, err)
	}
	return nil
}

func (c *Client) waiting() (stop func()) {
	if c.Waiting == nil {
		return func() {}
	}
	return c.Waiting()
}

// send sends a request.
func (c *Client) send(ctx context.Context, method, path string, form url.Values, accept string) (*http.Response, error) {
	u := c.URL(path)
	var body io.Reader
	if method == http.MethodGet {
		u.RawQuery = form.Encode()
	} else {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	req.Header.Set("Accept", accept)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.failed(ctx, err)
	}
	return resp, nil
}

// envelope is Prometheus's form of answers.
type envelope struct {
	Status    string          `json:"status"`
	Data      json.RawMessage `json:"data"`
	Warnings  []string        `json:"warnings"`
	Infos     []string        `json:"infos"`
	ErrorType string          `json:"errorType"`
	Error     string          `json:"error"`
}

// parse reads an answer in Prometheus's form.
func (c *Client) parse(path string, resp *http.Response, body []byte) (e envelope, err error) {
	if json.Unmarshal(body, &e) != nil || e.Status == "" {
		return e, c.stranger(path, resp, body)
	}
	if e.Status != "success" {
		return e, &compare.Refused{Status: resp.StatusCode, Type: e.ErrorType, Text: e.Error}
	}
	return e, nil
}

func mediaType(resp *http.Response) string {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return kind
}

// Parsed reads the answer to PromQL to compare it.
func (a *Answer) Parsed() (*compare.Answer, error) {
	parsed, err := compare.ParseData(a.Data)
	if err != nil {
		return nil, fmt.Errorf("the answer cannot be read: %w", err)
	}
	parsed.Warnings, parsed.Infos, parsed.Took = a.Warnings, a.Infos, a.Took
	return parsed, nil
}

// Value reads the answer to PromQL: a model.Matrix, model.Vector, *model.Scalar or *model.String.
func (a *Answer) Value() (model.Value, error) {
	var data struct {
		Type   string          `json:"resultType"`
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(a.Data, &data); err != nil {
		return nil, err
	}
	switch data.Type {
	case "matrix":
		return valueOf[model.Matrix](data.Result)
	case "vector":
		return valueOf[model.Vector](data.Result)
	case "scalar":
		return valueOf[*model.Scalar](data.Result)
	case "string":
		return valueOf[*model.String](data.Result)
	}
	return nil, fmt.Errorf("the answer is of no known type, but %q", data.Type)
}

func valueOf[T model.Value](text []byte) (model.Value, error) {
	var v T
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, fmt.Errorf("the answer cannot be read: %w", err)
	}
	return v, nil
}
