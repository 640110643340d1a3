package api

import (
	_ "embed"
	"encoding/json"
	"net/http"

	"github.com/prometheus/common/version"
	"go.yaml.in/yaml/v3"

	"github.com/promwarp/promwarp/api/promapi"
)

// openAPIPath is where promwarp's own endpoints are described as an OpenAPI document. The upstream
// describes Prometheus's, at /api/v1/openapi.yaml.
const openAPIPath = "/openapi.json"

//go:embed openapi.yaml
var openAPIText []byte

// openAPIDocument is openapi.yaml as JSON, with the program's version.
func openAPIDocument() ([]byte, error) {
	var doc map[string]any
	if err := yaml.Unmarshal(openAPIText, &doc); err != nil {
		return nil, err
	}
	delete(doc, "x-values")
	if info := doc["info"].(map[string]any); version.Version != "" {
		info["version"] = version.Version
	}
	return json.Marshal(doc)
}

// openAPI answers with the description of promwarp's own endpoints.
func openAPI(w http.ResponseWriter, _ *http.Request) {
	b, err := openAPIDocument()
	if err != nil {
		promapi.Error(w, http.StatusInternalServerError, promapi.Internal, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b) // an error is the client's, which has gone
}
