package api

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/plan/offload"
	"github.com/promwarp/promwarp/resample"
)

// lending is an accelerator whose values are lent, and spoiled once they are given back.
type lending struct {
	keeps           bool // values stay as they are, for comparison
	lent, givenBack int
}

func (l *lending) Suits(offload.Leaf) string { return "" }

func (l *lending) Evaluate(_ context.Context, of offload.Leaf, consume func(*offload.Rows) error) (offload.Outcome, error) {
	t := of.(*resample.Task)
	n := t.Grid.N()
	cells := &offload.Rows{Each: t.Groups}
	for g := range t.Groups {
		cells.Groups = append(cells.Groups, int32(g))
	}
	for range t.Slots {
		present := make([]uint64, t.Groups*((n+63)/64))
		for k := range present {
			present[k] = 1<<n - 1<<(k%2) // every other group lacks the first
		}
		cells.Present = append(cells.Present, present)
	}
	for a := range t.Aggregates {
		values := make([]float64, t.Groups*n)
		for k := range values {
			values[k] = float64(1000*a + k)
		}
		cells.Values = append(cells.Values, values)
	}
	l.lent++
	cells.Release = func() {
		l.givenBack++
		for _, values := range cells.Values {
			for k := range values {
				if !l.keeps {
					values[k] = math.Inf(-1)
				}
			}
		}
	}
	return offload.Outcome{}, consume(cells)
}

func (l *lending) OnCores(offload.Leaf, time.Duration) {}

// gone is a client that has gone.
type gone struct{ http.ResponseWriter }

func (gone) Write([]byte) (int, error) { return 0, errors.New("the client has gone") }

// TestResampleLent: values that an answer was lent are given back once, when the answer was written
// or has failed.
func TestResampleLent(t *testing.T) {
	const asked = "?metric=m&start=0&end=600&every=1m&aggregates=max,min"
	pool := memory.New(memory.Options{Limit: 4 << 20, Wait: time.Millisecond})
	pool.Count(memory.Fetched, pool.Limit())
	for _, c := range []struct {
		name, path string
		code       int
		change     func(*Options, *resample.Options)
	}{
		{"JSON", "/query" + asked, 200, nil},
		{"explained", "/query" + asked + "&explain=true", 200, nil},
		{"filled", "/query" + asked + "&fill=null", 200, nil},
		{"limited", "/query" + asked + "&limit=2", 200, nil},
		{"CSV", "/query" + asked + "&format=csv", 200, nil},
		{"NDJSON", "/query" + asked + "&format=ndjson", 200, nil},
		{"Arrow", "/query" + asked + "&format=arrow", 200, nil},
		{"wide Arrow", "/query" + asked + "&format=arrow&layout=wide", 200, nil},
		{"Parquet", "/query" + asked + "&format=parquet", 200, nil},
		{"analysed", "/explain" + asked + "&analyze=true", 200, nil},
		{"one column twice", "/query?metric=n&start=0&end=600&every=1m&aggregates=count&format=csv", 400, nil},
		{"too many values", "/query" + asked, 422, func(_ *Options, o *resample.Options) { o.MaxSamples = 7 }},
		{"too many filled", "/query" + asked + "&fill=null", 422, func(_ *Options, o *resample.Options) { o.MaxSamples = 39 }},
		{"too little memory", "/query" + asked, 422, func(_ *Options, o *resample.Options) { o.MaxMemory = 1000 }},
		{"no memory for the answer", "/query" + asked + "&format=arrow", 503, func(o *Options, _ *resample.Options) { o.Memory = pool }},
	} {
		t.Run(c.name, func(t *testing.T) {
			ask := func(l *lending, w http.ResponseWriter) {
				a := newTestAPI(t, func(o *Options) {
					of := resample.Options{Accelerator: l}
					o.Queryable = newStorage(t, "load 1m\n  m{i=\"0\"} 1x10\n  m{i=\"1\"} 1x10\n  n{count=\"a\"} 1x10")
					if c.change != nil {
						c.change(o, &of)
					}
					o.Resample = resample.New(of)
				})
				a.ServeHTTP(w, httptest.NewRequest(http.MethodGet, c.path, nil))
				require.Equal(t, l.lent, l.givenBack)
			}
			kept, spoiled := httptest.NewRecorder(), httptest.NewRecorder()
			ask(&lending{keeps: true}, kept)
			require.Equal(t, c.code, kept.Code, kept.Body)
			l := &lending{}
			ask(l, spoiled)
			require.Equal(t, 1, l.lent)
			if c.name != "explained" && c.name != "analysed" { // which say how long it took
				require.Equal(t, kept.Body.Bytes(), spoiled.Body.Bytes())
			}
			ask(&lending{}, gone{httptest.NewRecorder()})
		})
	}
}
