// Package openapi describes promwarp's own doors as an OpenAPI document: /query, /explain and those
// for operating it. Prometheus's doors are described at /api/v1/openapi.yaml.
//
// Fields, formats and codes come from the tables that requests are read with (resample.Fields,
// table.Formats, resample.Codes); what they mean is in fields.go. Tests hold the document against
// the doors.
//
// Start with Document.
package openapi

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/promwarp/promwarp/api/table"
	"github.com/promwarp/promwarp/resample"
)

// Path is where the document is.
const Path = "/openapi.json"

type object = map[string]any

// Document is the description of a program of the given version, as JSON.
func Document(version string) ([]byte, error) {
	if version == "" {
		version = "unknown"
	}
	return json.Marshal(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "promwarp", "version": version,
			"description": "PromQL and resample requests over stored samples. Prometheus's own API, which promwarp answers too, is described at /api/v1/openapi.yaml.",
			"license":     object{"name": "Apache 2.0", "identifier": "Apache-2.0"},
		},
		"paths": paths(),
		"components": object{
			"schemas": object{
				"PromQL": schemaOf(promQL, "query"), "Resample": schemaOf(resampling()), "Error": errorSchema(), "Matrix": matrixSchema(),
				"Explanation": object{"type": "object", "description": "how a request is computed, and with analyze=true what that took"},
			},
			"responses": errors(),
		},
	})
}

// paths are the doors.
func paths() object {
	text := func(description string) object {
		return object{"200": object{"description": description, "content": object{"text/plain": object{"schema": object{"type": "string"}}}}}
	}
	done := func(id, summary string, codes ...string) object {
		answers := object{"200": object{"description": "done"}}
		for _, code := range codes {
			answers[code] = object{"description": "it was not done; the body says why"}
		}
		return object{"operationId": id, "summary": summary, "responses": answers}
	}
	// each is an operation by several methods, which must have names of their own.
	each := func(methods []string, of func(method string) object) object {
		item := object{}
		for _, method := range methods {
			item[method] = of(method)
		}
		return item
	}
	getHead, postPut := []string{"get", "head"}, []string{"post", "put"}
	return object{
		"/query":   asked("query", "Answers PromQL, and resample requests", answers(true)),
		"/explain": asked("explain", "Says how a request is computed, with analyze=true after computing it", answers(false)),
		Path: object{"get": object{
			"operationId": "openapi", "summary": "This document",
			"responses": object{"200": object{"description": "an OpenAPI document", "content": object{"application/json": object{"schema": object{"type": "object"}}}}},
		}},
		"/-/healthy": each(getHead, func(m string) object {
			return object{"operationId": m + "Healthy", "summary": "Answers as long as the program runs", "responses": text("it runs")}
		}),
		"/-/ready": each(getHead, func(m string) object {
			answers := text("requests can be sent")
			answers["503"] = object{"description": "not yet, or no longer; the body says why"}
			return object{"operationId": m + "Ready", "summary": "Says whether requests should be sent", "responses": answers}
		}),
		"/-/reload": each(postPut, func(m string) object {
			return done(m+"Reload", "Reads the configuration file again", "403", "404", "500")
		}),
		"/metrics": each(getHead, func(m string) object {
			return object{"operationId": m + "Metrics", "summary": "promwarp's own metrics", "responses": text("metrics in a form that Prometheus scrapes")}
		}),
		"/version": object{"get": object{"operationId": "version", "summary": "Whose engine it runs", "responses": text("JSON")}},
		"/api/v1/admin/cache/drop": each(postPut, func(m string) object {
			o := done(m+"CacheDrop", "Forgets cached samples, as after a deletion or a backfill upstream; needs --web.enable-admin-api", "400", "403", "503")
			o["parameters"] = parameters(dropping)
			return o
		}),
		"/api/v1/admin/queries/cancel": each(postPut, func(m string) object {
			o := done(m+"QueryCancel", "Cancels a query that is under way; needs --web.enable-admin-api", "400", "403", "404", "503")
			o["parameters"] = parameters(map[string]field{"id": {text: "the query's number, of /api/v1/status/queries"}})
			return o
		}),
		"/api/v1/status/queries": object{"get": shown("queryStatus", "The queries under way, the oldest first")},
		"/api/v1/status/gpus":    object{"get": shown("gpuStatus", "The GPUs, what they have, and what the machine was measured to do")},
		"/api/v1/status/cache": object{"get": func() object {
			o := shown("cacheStatus", "What is cached, by upstream and selector")
			o["parameters"] = parameters(map[string]field{"limit": {text: "the most selectors of each upstream; defaults to 200"}})
			o["responses"].(object)["400"] = object{"$ref": "#/components/responses/400"}
			return o
		}()},
	}
}

// shown is a door that answers with what it shows, under data.
func shown(id, summary string) object {
	body := object{"type": "object", "required": []string{"status", "data"}}
	return object{
		"operationId": id, "summary": summary,
		"responses": object{"200": object{"description": "what there is at present", "content": object{"application/json": object{"schema": body}}}},
	}
}

// asked is a door that takes PromQL and resample requests, by GET, as a form or as JSON.
func asked(id, summary string, answers object) object {
	either := func(prefix string) object {
		return object{"oneOf": []object{{"$ref": prefix + "PromQL"}, {"$ref": prefix + "Resample"}}}
	}
	body := object{"schema": either("#/components/schemas/")}
	all := maps.Clone(promQL)
	maps.Copy(all, resampling())
	return object{
		"get": object{"operationId": "get_" + id, "summary": summary, "parameters": parameters(all), "responses": answers},
		"post": object{
			"operationId": "post_" + id, "summary": summary, "responses": answers,
			"requestBody": object{"content": object{"application/json": body, "application/x-www-form-urlencoded": body}},
		},
	}
}

// answers are the answers of such a door.
func answers(tables bool) object {
	content := object{}
	for i, f := range table.Formats {
		switch {
		case i == 0 && tables:
			content[f.Media] = object{"schema": object{"$ref": "#/components/schemas/Matrix"}}
		case i == 0:
			content[f.Media] = object{"schema": object{"$ref": "#/components/schemas/Explanation"}}
		case tables && f.Layouts:
			content[f.Media] = object{"schema": object{"type": "string", "format": "binary"}}
		case tables:
			content[f.Media] = object{"schema": object{"type": "string"}}
		}
	}
	all := object{"200": object{"description": "the answer, in the form that format or Accept asks for", "content": content}}
	for code := range errors() {
		all[code] = object{"$ref": "#/components/responses/" + code}
	}
	return all
}

// errors are what doors answer with when they do not have the answer, by status.
func errors() object {
	all := object{}
	for code, description := range map[string]string{
		"400": "bad_data: the request is wrong; nothing was computed, unless code says otherwise",
		"408": "timeout: the body did not arrive in time",
		"413": "bad_data: the body is too large",
		"422": "execution: it cannot be computed: too many samples, too much memory, an error of PromQL",
		"499": "canceled: the client went away",
		"500": "internal: a mistake of promwarp's",
		"502": "unavailable: the server that samples come from does not answer",
		"503": "timeout or unavailable: the time is up, the queue is full, there is no memory; Retry-After says when to come back",
	} {
		all[code] = object{"description": description, "content": object{"application/json": object{"schema": object{"$ref": "#/components/schemas/Error"}}}}
	}
	return all
}

func errorSchema() object {
	word := object{"type": "string"}
	return object{
		"type": "object", "required": []string{"status", "errorType", "error"},
		"properties": object{
			"status": object{"const": "error"}, "errorType": word, "error": word, "hint": word,
			"field": object{"type": "string", "description": "the field that is wrong, as the request names it"},
			"code":  object{"type": "string", "enum": resample.Codes, "description": "stays as it is when messages change"},
		},
	}
}

func matrixSchema() object {
	return object{
		"type": "object", "required": []string{"status", "data"}, "description": "Prometheus's form",
		"properties": object{
			"status":   object{"const": "success"},
			"data":     object{"type": "object", "properties": object{"resultType": object{"enum": []string{"matrix", "vector", "scalar", "string"}}, "result": object{"type": "array"}}},
			"warnings": object{"type": "array", "items": object{"type": "string"}},
		},
	}
}

// parameters are fields as parameters of a URL, in order.
func parameters(of map[string]field) []object {
	all := []object{}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		all = append(all, object{"name": name, "in": "query", "description": of[name].text, "schema": of[name].schema()})
	}
	return all
}

// schemaOf is the schema of an object of fields.
func schemaOf(of map[string]field, required ...string) object {
	properties := object{}
	for name, f := range of {
		s := f.schema()
		s["description"] = f.text
		properties[name] = s
	}
	s := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}
