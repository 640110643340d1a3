package api

import (
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache"
)

// dropper remembers what it was asked to drop.
type dropper struct {
	mint, maxt int64
	selectors  [][]*labels.Matcher
	err        error
}

func (d *dropper) Drop(mint, maxt int64, selectors ...[]*labels.Matcher) (cache.Dropped, error) {
	d.mint, d.maxt, d.selectors = mint, maxt, selectors
	return cache.Dropped{Selectors: 2, Tiles: 30}, d.err
}

func TestDrop(t *testing.T) {
	d := &dropper{}
	a := newTestAPI(t, func(o *Options) { o.Dropper = d })
	post := func(query string) *httptest.ResponseRecorder {
		*d = dropper{err: d.err}
		return do(t, a, httptest.NewRequest(http.MethodPost, "/api/v1/admin/cache/drop?"+query, nil))
	}
	w := post("match[]=m&match[]={x=~%22a|b%22}&start=10&end=1970-01-01T00:00:20Z")
	require.Equal(t, 200, w.Code)
	require.JSONEq(t, `{"status":"success","data":{"selectors":2,"tiles":30}}`, w.Body.String())
	require.Len(t, d.selectors, 2)
	require.Equal(t, [2]int64{10_000, 20_000}, [2]int64{d.mint, d.maxt})

	require.Equal(t, 200, post("start=10").Code)
	require.Equal(t, [2]int64{10_000, math.MaxInt64}, [2]int64{d.mint, d.maxt})
	require.Equal(t, 200, post("all=true").Code)
	require.Equal(t, [2]int64{math.MinInt64, math.MaxInt64}, [2]int64{d.mint, d.maxt})
	require.Empty(t, d.selectors)

	for query, want := range map[string]string{
		"":               "say what to drop",
		"all=perhaps":    "say what to drop",
		"match[]=m{":     `match[]`,
		"start=noon":     `noon`,
		"start=2&end=1":  "must not be before start",
		"match[]=sum(m)": `match[]`,
	} {
		w := post(query)
		require.Equal(t, 400, w.Code, query)
		require.Contains(t, w.Body.String(), want)
		require.Zero(t, *d, query)
	}
	require.Equal(t, 405, do(t, a, httptest.NewRequest(http.MethodGet, "/api/v1/admin/cache/drop?all=true", nil)).Code)
	d.err = errors.New("the disk is on fire")
	w = post("all=true")
	require.Equal(t, 500, w.Code)
	require.Contains(t, w.Body.String(), "on fire")

	a = newTestAPI(t, nil)
	w = post("all=true")
	require.Equal(t, 503, w.Code)
	require.Contains(t, w.Body.String(), "admin APIs disabled")
}
