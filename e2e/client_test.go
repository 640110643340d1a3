package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// client is like a dashboard's, but for compression: it costs the client and
// both servers the same.
var client = &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 8}, Timeout: 2 * time.Minute}

// answer is what a server's query API said.
type answer struct {
	code int
	body []byte
}

// rangeForm asks for q on the grid.
func (g grid) rangeForm(q string) url.Values {
	return url.Values{"query": {q}, "start": {seconds(g.start)}, "end": {seconds(g.end)}, "step": {strconv.FormatFloat(g.step.Seconds(), 'f', -1, 64)}}
}

// instantForm asks for q at t.
func instantForm(q string, t time.Time) url.Values {
	return url.Values{"query": {q}, "time": {seconds(t)}}
}

func seconds(t time.Time) string {
	return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', -1, 64)
}

// post sends a form to path below base.
func post(ctx context.Context, base, path string, form url.Values) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, strings.NewReader(form.Encode()))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, body}, err
}

// ask is post for a test in which the server must answer.
func ask(t *testing.T, base, path string, form url.Values) answer {
	t.Helper()
	a, err := post(t.Context(), base, path, form)
	require.NoError(t, err, "%s%s %s", base, path, form.Get("query"))
	return a
}

// response is an answer of the query API.
type response struct {
	Status    string   `json:"status"`
	ErrorType string   `json:"errorType"`
	Error     string   `json:"error"`
	Warnings  []string `json:"warnings"`
	Infos     []string `json:"infos"`
	Data      struct {
		ResultType string          `json:"resultType"`
		Result     json.RawMessage `json:"result"`
	} `json:"data"`
}

func (a answer) parse() (response, error) {
	var r response
	if err := json.Unmarshal(a.body, &r); err != nil {
		return r, fmt.Errorf("answer with status %d is not the API's: %w: %.200s", a.code, err, a.body)
	}
	return r, nil
}

// series is one series of a matrix or a vector.
type series struct {
	Metric     map[string]string `json:"metric"`
	Values     []point           `json:"values"`
	Value      point             `json:"value"`
	Histogram  json.RawMessage   `json:"histogram"`
	Histograms json.RawMessage   `json:"histograms"`
}

func (s *series) String() string {
	b, _ := json.Marshal(s.Metric) // sorts the keys
	return string(b)
}

// point is a timestamp and a value, as text.
type point struct{ t, v string }

// UnmarshalJSON implements json.Unmarshaler for [seconds,"value"].
func (p *point) UnmarshalJSON(b []byte) error {
	t, v, ok := strings.Cut(strings.Trim(string(b), "[]"), ",")
	if !ok {
		return fmt.Errorf("not a point: %s", b)
	}
	p.t, p.v = t, strings.Trim(v, `"`)
	return nil
}
