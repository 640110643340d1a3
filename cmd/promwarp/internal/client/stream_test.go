package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/engine/compare"
)

// answering returns the client of a server that answers each request so.
func answering(t *testing.T, answer http.HandlerFunc) *Client {
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	f := Flags{Timeout: 0}
	c, err := f.Client("url", s.URL)
	require.NoError(t, err)
	return c
}

// TestStream: data comes apart from what is beside it, wherever that is.
func TestStream(t *testing.T) {
	for name, c := range map[string]struct {
		body, data, warning, err string
	}{
		"Prometheus's order":       {body: `{"status":"success","data":{"a":"}]\"{"},"warnings":["w"]}`, data: `{"a":"}]\"{"}`, warning: "w"},
		"another, with spaces":     {body: " {\n \"warnings\" : [ \"w\" ],\t\"data\": [1, {}] , \"n\": 1.5, \"status\":\"success\" }\n", data: ` [1, {}]`, warning: "w"},
		"data last":                {body: `{"status":"success","warnings":["` + strings.Repeat("w", mostHead) + `"],"data":{"a":1}}`, data: `{"a":1}`, warning: strings.Repeat("w", mostHead)},
		"no data":                  {body: `{"status":"success"}`},
		"an error":                 {body: `{"status":"error","errorType":"execution","error":"too much"}`, err: "too much"},
		"no JSON":                  {body: "<html>", err: "not as Prometheus's API does"},
		"nothing":                  {err: "not as Prometheus's API does"},
		"an end in the data":       {body: `{"status":"success","data":{"a":[`, data: `{"a":[`, err: "no answer from http://127.0.0.1:"},
		"an end behind the data":   {body: `{"status":"success","data":{}`, data: `{}`, err: "not as Prometheus's API does"},
		"an end in what is beside": {body: `{"status":"succ`, err: "not as Prometheus's API does"},
	} {
		t.Run(name, func(t *testing.T) {
			var data strings.Builder
			client := answering(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c.body) })
			reply, err := client.Stream(t.Context(), Instant, nil, JSON, func(r io.Reader) error {
				_, err := io.Copy(&data, iotest.OneByteReader(r))
				return err
			})
			require.Equal(t, c.data, data.String())
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.warning, strings.Join(reply.Warnings, ","))
		})
	}
}

// TestStreamRefused: an error of Prometheus's form has its status, and that of a reader is its own.
func TestStreamRefused(t *testing.T) {
	refusing := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"status":"error","errorType":"unavailable","error":"busy"}`)
	})
	_, err := refusing.Stream(t.Context(), Instant, nil, JSON, nil)
	require.True(t, Busy(err), err)
	full := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"data":[1,2],"status":"success"}`)
	})
	_, err = full.Stream(t.Context(), Instant, nil, JSON, func(io.Reader) error { return io.ErrShortWrite })
	require.Equal(t, io.ErrShortWrite, err)
}

// TestStreamIsBounded: of an answer of 60 MB a few buffers are in memory.
func TestStreamIsBounded(t *testing.T) {
	const series, points = 4000, 500
	c := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"matrix","result":[`)
		values := strings.Repeat(`,[1700000000.123,"0.123456789"]`, points)[1:]
		for i := range series {
			fmt.Fprintf(w, `%s{"metric":{"i":"%d"},"values":[%s]}`, strings.Repeat(",", min(i, 1)), i, values)
		}
		_, _ = io.WriteString(w, `]}}`)
	})
	var most uint64
	rows, all := 0, 0
	_, err := c.Stream(t.Context(), Ranged, nil, JSON, func(data io.Reader) error {
		return new(compare.Answer).Read(data, func(s compare.Series) error {
			rows++
			all += len(s.Floats)
			if rows%500 == 0 {
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapAlloc)
			}
			return nil
		})
	})
	require.NoError(t, err)
	require.Equal(t, []int{series, series * points}, []int{rows, all})
	require.Less(t, most, uint64(16<<20))
}

// TestStreamInterrupted: the server is told when who asks gives up, before and in the middle of an answer.
func TestStreamInterrupted(t *testing.T) {
	for _, begun := range []bool{false, true} {
		began, ended := make(chan struct{}), make(chan struct{})
		c := answering(t, func(w http.ResponseWriter, r *http.Request) {
			_ = r.ParseForm()
			if begun {
				_, _ = io.WriteString(w, `{"status":"success","data":{`)
				w.(http.Flusher).Flush()
			}
			close(began)
			<-r.Context().Done()
			close(ended)
		})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-began
			cancel()
		}()
		_, err := c.Stream(ctx, Ranged, map[string][]string{"query": {"m"}}, JSON, func(data io.Reader) error {
			_, err := io.Copy(io.Discard, data)
			return err
		})
		require.EqualError(t, err, "interrupted")
		<-ended
	}
}
