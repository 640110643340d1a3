package client

import (
	"log/slog"
	"net/http"
	"net/url"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/inside"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/server"
)

// Embed starts a promwarp inside this process, which nobody else can ask: it listens on no address,
// keeps nothing on disk, and fetches nothing ahead. Stop ends it.
func Embed(set config.Settings, logger *slog.Logger) (c *Client, stop func(), err error) {
	set.Cache.Path, set.Cache.PrefetchRequests = "", 0
	set.Web = config.Default().Web
	srv, err := server.New(server.Config{Settings: set, Logger: logger, Embedded: true})
	if err != nil {
		return nil, nil, err
	}
	c = &Client{base: &url.URL{Scheme: "http", Host: "promwarp"}, http: http.Client{Transport: inside.Transport{Handler: srv}}}
	return c, srv.Close, nil
}
