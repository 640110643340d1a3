package api

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi/datamodel"
	"github.com/pb33f/libopenapi/datamodel/low/v3"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/api/table"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/resample"
)

// described is what tests read of the OpenAPI document.
type described struct {
	OpenAPI    string
	Paths      map[string]map[string]operation
	Components struct{ Schemas map[string]objectSchema }
}

type operation struct {
	OperationID string
	Parameters  []struct {
		Name, Description string
		Schema            struct {
			Enum  []string
			OneOf []struct{ Type any }
		}
	}
	Responses map[string]struct {
		Content map[string]any
	}
}

type objectSchema struct {
	AdditionalProperties *bool
	Properties           map[string]struct {
		Description string
		Enum        []string
		OneOf       []any
	}
}

func openAPIOf(t *testing.T, h http.Handler) (doc described, text []byte) {
	w := do(t, h, httptest.NewRequest(http.MethodGet, openAPIPath, nil))
	require.Equal(t, http.StatusOK, w.Code)
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &doc))
	return doc, w.Body.Bytes()
}

// TestOpenAPIIsValid: a library for OpenAPI reads the document, finds every reference, and every
// operation by a name of its own. Prometheus's API imports the same packages: others take a minute to compile.
func TestOpenAPIIsValid(t *testing.T) {
	doc, text := openAPIOf(t, newTestAPI(t, nil))
	require.Equal(t, "3.1.0", doc.OpenAPI)
	info, err := datamodel.ExtractSpecInfo(text)
	require.NoError(t, err)
	parsed, err := v3.CreateDocumentFromConfig(info, datamodel.NewDocumentConfiguration())
	require.NoError(t, err)
	require.Equal(t, len(doc.Paths), parsed.Paths.Value.PathItems.Len())
	require.Empty(t, parsed.Index.GetReferenceIndexErrors())
	ids := map[string]bool{}
	for path, operations := range doc.Paths {
		for method, o := range operations {
			require.NotEmpty(t, o.OperationID, "%s %s", method, path)
			require.False(t, ids[o.OperationID], o.OperationID)
			ids[o.OperationID] = true
			require.NotEmpty(t, o.Responses, path)
		}
	}
}

// TestOpenAPIDoors: the doors of the document are there, and take the methods that it says and no
// others.
func TestOpenAPIDoors(t *testing.T) {
	a := newTestAPI(t, func(o *Options) { o.Lifecycle, o.Reload, o.Dropper = true, func() error { return nil }, &dropper{} })
	doc, _ := openAPIOf(t, a)
	for path, operations := range doc.Paths {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete} {
			_, is := operations[strings.ToLower(method)]
			w := do(t, a, httptest.NewRequest(method, path, nil))
			require.NotEqual(t, http.StatusNotFound, w.Code, path)
			require.Equal(t, is, w.Code != http.StatusMethodNotAllowed, "%s %s: %d", method, path, w.Code)
			if is && w.Code >= 400 {
				require.Contains(t, operations[strings.ToLower(method)].Responses, "400", "%s %s: %s", method, path, w.Body)
			}
		}
	}
}

// TestOpenAPIFields: the doors know each field of the document, and of values that are listed each;
// fields and values that are not in it are refused.
func TestOpenAPIFields(t *testing.T) {
	a := newTestAPI(t, nil)
	doc, _ := openAPIOf(t, a)
	ask := func(form url.Values) (got mistaken) {
		w := do(t, a, httptest.NewRequest(http.MethodGet, "/query?"+form.Encode(), nil))
		if w.Code != http.StatusOK {
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got), w.Body)
		}
		return got
	}
	resampling := doc.Components.Schemas["Resample"]
	require.False(t, *resampling.AdditionalProperties)
	parameters := map[string]bool{}
	for _, p := range doc.Paths["/query"]["get"].Parameters {
		require.NotEmpty(t, p.Description, p.Name)
		parameters[p.Name] = true
	}
	for name, f := range resampling.Properties {
		require.NotEmpty(t, f.Description, name)
		require.True(t, parameters[name], name)
		form := url.Values{"metric": {"m"}, name: {"x"}}
		require.NotEqual(t, resample.CodeUnknownField, ask(form).Code, name)
		for _, value := range f.Enum {
			form := url.Values{"metric": {"m"}, "start": {"0"}, "end": {"60"}, "every": {"1m"}, "aggregates": {"sum"}, name: {value}}
			if name == "layout" {
				form.Set("format", "arrow")
			}
			if name == "format" && value == "text" || name == "executor" && value == "prometheus" {
				continue // of PromQL
			}
			require.Empty(t, ask(form).Code, "%s=%s", name, value)
		}
		if f.Enum != nil {
			form := url.Values{"metric": {"m"}, "start": {"0"}, "end": {"60"}, "every": {"1m"}, "aggregates": {"sum"}, name: {"x"}}
			require.NotEmpty(t, ask(form).Error, name)
		}
	}
	for _, name := range append([]string{"granularities", ""}, slices.Sorted(func(yield func(string) bool) {
		for name := range doc.Components.Schemas["PromQL"].Properties {
			if _, both := resampling.Properties[name]; !both && name != "query" && !yield(name) {
				return
			}
		}
	})...) {
		value := "1"
		if of := doc.Components.Schemas["PromQL"].Properties[name].Enum; of != nil {
			value = of[0]
		}
		require.Equal(t, resample.CodeUnknownField, ask(url.Values{"metric": {"m"}, name: {value}}).Code, name)
	}
	for name := range doc.Components.Schemas["PromQL"].Properties {
		require.True(t, parameters[name], name)
	}
}

// TestOpenAPITables: the document has the fields of resample requests by all of their names, the
// formats and the codes, and no others.
func TestOpenAPITables(t *testing.T) {
	doc, _ := openAPIOf(t, newTestAPI(t, nil))
	resampling, names := doc.Components.Schemas["Resample"].Properties, []string{}
	for _, f := range resample.Fields() {
		for _, name := range append([]string{f.Name}, f.Aliases...) {
			names = append(names, name)
			require.Contains(t, resampling, name)
			require.Equal(t, f.List, resampling[name].OneOf != nil, "%s: list", name)
		}
	}
	require.Len(t, resampling, len(names))
	formats, media := []string{"text"}, []string{}
	for _, f := range table.Formats {
		formats, media = append(formats, f.Name), append(media, f.Media)
	}
	require.ElementsMatch(t, formats, resampling["format"].Enum)
	require.ElementsMatch(t, media, slices.Collect(maps.Keys(doc.Paths["/query"]["get"].Responses["200"].Content)))
	require.ElementsMatch(t, resample.Codes, doc.Components.Schemas["Error"].Properties["code"].Enum)
	require.ElementsMatch(t, []string{string(plan.WithinTolerance), string(plan.Bits)}, doc.Components.Schemas["PromQL"].Properties["exact"].Enum)
}

// TestOpenAPIAnswers: the media types of the document are those of answers.
func TestOpenAPIAnswers(t *testing.T) {
	a := newTestAPI(t, nil)
	doc, _ := openAPIOf(t, a)
	content := doc.Paths["/query"]["get"].Responses["200"].Content
	require.Len(t, content, 5)
	for media := range content {
		for _, request := range []string{"query=m&time=60", "metric=m&start=0&end=600&every=1m&aggregates=sum"} {
			r := httptest.NewRequest(http.MethodGet, "/query?"+request, nil)
			r.Header.Set("Accept", media)
			w := do(t, a, r)
			require.Equal(t, []any{http.StatusOK, media}, []any{w.Code, w.Header().Get("Content-Type")}, request)
		}
	}
}
