package forward

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/promwarp/promwarp/api/promapi"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/parallel"
)

// Lists returns what answers requests for labels, series and metadata: the only server, or
// the union of what several list.
func (f *Forwarder) Lists() http.HandlerFunc {
	if len(f.Remotes) > 1 {
		return staying(f.gather())
	}
	return staying(f.forward(f.Remotes[0]))
}

// forward returns what forwards requests to a server.
func (f *Forwarder) forward(remote *Remote) http.HandlerFunc {
	h := f.To(remote, nil)
	if remote.Kept != nil && remote.Base != nil {
		return f.keptLabels(remote, h)
	}
	return h
}

// gather returns what forwards requests to all servers and answers with the union
// of what they list. A server that fails is an error, or a warning where it is
// optional and another one answers.
func (f *Forwarder) gather() http.HandlerFunc {
	forwards := make([]http.HandlerFunc, len(f.Remotes))
	for i, r := range f.Remotes {
		forwards[i] = f.forward(r)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			promapi.FormError(w, err)
			return
		}
		limit, err := listLimit(r, body)
		if err != nil {
			promapi.Error(w, http.StatusBadRequest, promapi.BadData, err.Error())
			return
		}
		lease := f.Memory.Lease(memory.Answers)
		defer lease.Release()
		answers := make([]*listAnswer, len(forwards))
		var asks errgroup.Group
		for i, h := range forwards {
			asks.Go(func() error {
				return parallel.Rescue(func() error {
					answers[i] = ask(h, r, body, lease, f.MaxListBytes/int64(len(forwards)))
					return nil
				})
			})
		}
		if err := asks.Wait(); err != nil {
			panic(err)
		}
		f.respondList(w, r, answers, limit)
	}
}

// listLimit is the request's limit of a list, 0 if it has none. A request that the
// union of several lists cannot answer is an error.
func listLimit(r *http.Request, body []byte) (int, error) {
	form := r.Clone(r.Context())
	form.Body = io.NopCloser(bytes.NewReader(body))
	if err := form.ParseForm(); err != nil {
		return 0, fmt.Errorf("error parsing form values: %w", err)
	}
	if form.Form.Has("group_limit") || form.Form.Has("group_next_token") {
		return 0, errors.New("promwarp reads from several servers, whose rule groups do not come in pages; leave out group_limit and group_next_token")
	}
	limit, err := strconv.Atoi(form.FormValue("limit"))
	if err != nil {
		return 0, nil // the servers say what is wrong with it
	}
	return limit, nil
}

// respondList answers with the union of lists.
func (f *Forwarder) respondList(w http.ResponseWriter, r *http.Request, answers []*listAnswer, limit int) {
	var data []json.RawMessage
	var warnings, infos []string
	failed := -1
	for i, l := range answers {
		remote := f.Remotes[i]
		if l.recorded.refused != nil {
			l.respond(w, remote.Name)
			return
		}
		if l.Status == "success" {
			data = append(data, l.Data)
			warnings, infos = append(warnings, l.Warnings...), append(infos, l.Infos...)
			continue
		}
		if f.replaced(remote, answers) {
			continue
		}
		warnings = append(warnings, fmt.Sprintf("partial answer, without anything of the upstream %s: %s", remote.Name, l.Error))
		if failed < 0 || !remote.Optional {
			failed = i
		}
		if !remote.Optional {
			data = nil
			break
		}
	}
	if len(data) == 0 {
		answers[failed].respond(w, f.Remotes[failed].Name)
		return
	}
	all, err := unite(r.Context(), r.URL.Path, data)
	if ended := r.Context().Err(); ended != nil {
		promapi.Failed(w, fmt.Errorf("putting the upstreams' answers together: %w", ended))
		return
	}
	if err != nil {
		promapi.Error(w, http.StatusBadGateway, promapi.Unavailable, fmt.Sprintf("the upstreams' answers to %s cannot be put together: %v", r.URL.Path, err))
		return
	}
	if list, ok := all.([]any); ok && limit > 0 && len(list) > limit {
		all = list[:limit]
		warnings = append(warnings, truncated)
	}
	promapi.Warned(w, all, distinct(warnings), distinct(infos))
}

// truncated is what Prometheus warns of where a list had more than its limit.
const truncated = "results truncated due to limit"

// replaced reports whether a replica of a server has answered.
func (f *Forwarder) replaced(remote *Remote, answers []*listAnswer) bool {
	for i, l := range answers {
		if remote.Replicas != "" && f.Remotes[i].Replicas == remote.Replicas && l.Status == "success" {
			return true
		}
	}
	return false
}

func distinct(s []string) []string {
	slices.Sort(s)
	return slices.Compact(s)
}
