package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"
)

var floodAttacks = []attack{{
	name: "connection flood", apart: true, what: "opens 2000 connections that say nothing, and closes them",
	holds: "meanwhile a connection is answered, or waits where --web.max-connections says so; a second later the server answers at once",
	run: func(ctx context.Context, e *env) (v verdict) {
		n := e.count(2000)
		conns := together(ctx, 64, n, func(ctx context.Context, _ int) net.Conn {
			c, err := e.target.dial(ctx)
			if err != nil {
				return nil
			}
			return c
		})
		open := 0
		for _, c := range conns {
			if c != nil {
				open++
			}
		}
		during := healthy(ctx, e.target, 2*time.Second)
		if e.mixed { // at most some hundreds a second, or this machine runs out of ports
			select {
			case <-ctx.Done():
			case <-time.After(4 * time.Second):
			}
		}
		for _, c := range conns {
			if t, ok := c.(*net.TCPConn); ok {
				_ = t.SetLinger(0) // or its port would be taken for a minute
				t.Close()
			}
		}
		time.Sleep(time.Second)
		after := healthy(ctx, e.target, 2*time.Second)
		if ctx.Err() == nil && !e.mixed && !after.ok() {
			v.breaks("a second after the flood /-/healthy: %s", after)
		}
		most, err := strconv.Atoi(e.flags["web.max-connections"])
		if limited := err == nil && most > 0 && most <= open; ctx.Err() == nil && !e.mixed && !limited && !during.ok() {
			v.breaks("during the flood /-/healthy: %s", during)
		}
		v.figures = fmt.Sprintf("%d of %d opened; /-/healthy during: %s, after: %s", open, n, during, after)
		return v
	},
}}

// healthy asks on a new connection.
func healthy(ctx context.Context, s *server, limit time.Duration) answer {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	fresh, err := newServer(s.url, "")
	if err != nil {
		return answer{err: err}
	}
	defer fresh.client.CloseIdleConnections()
	return fresh.get(ctx, "/-/healthy")
}
