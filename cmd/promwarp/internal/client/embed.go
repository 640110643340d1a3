package client

import (
	"log/slog"
	"net/http"
	"net/url"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/inside"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/server"
	"github.com/promwarp/promwarp/remoteread"
)

// Embed starts a promwarp inside this process, which nobody else can ask: it listens on no address,
// keeps nothing on disk, and fetches nothing ahead. Progress, which may be nil, is told of its fetches.
// Stop ends it.
func Embed(set config.Settings, progress func(remoteread.Progress), logger *slog.Logger) (c *Client, stop func(), err error) {
	set.Cache.Path, set.Cache.PrefetchRequests = "", 0
	set.Web = config.Default().Web
	srv, err := server.New(server.Config{Settings: set, Logger: logger, Embedded: true})
	if err != nil {
		return nil, nil, err
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if progress != nil {
			r = r.WithContext(remoteread.WithProgress(r.Context(), progress))
		}
		srv.ServeHTTP(w, r)
	})
	c = &Client{base: &url.URL{Scheme: "http", Host: "promwarp"}, http: http.Client{Transport: inside.Transport{Handler: handler}}}
	return c, srv.Close, nil
}
