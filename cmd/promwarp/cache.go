package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/cache/contents"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/client"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/render"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/terminal"
)

func init() { commands = append(commands, cacheListCommand, cacheDropCommand) }

// clause is the command that has those below it.
func clause(app *kingpin.Application, name, help string) *kingpin.CmdClause {
	if c := app.GetCommand(name); c != nil {
		return c
	}
	return app.Command(name, help)
}

const cacheHelp = "Show or drop what a promwarp keeps."

// cacheListCommand declares promwarp cache ls.
func cacheListCommand(app *kingpin.Application) (string, func(context.Context) error) {
	cmd := clause(app, "cache", cacheHelp).Command("ls", "List what a promwarp keeps, the largest selectors first.").HelpLong(`Examples:
  promwarp cache ls --limit=10
`)
	var server client.Flags
	limit := cmd.Flag("limit", "Most selectors to list, of each upstream.").Default("50").Int()
	format := cmd.Flag("format", "Form of the answer: table or json.").Short('o').Default("table").Enum("table", "json")
	server.Add(cmd, "")
	return cmd.FullCommand(), func(ctx context.Context) error {
		c, err := server.Client("url", server.URL)
		if err != nil {
			return err
		}
		answer, err := c.Get(ctx, "/api/v1/status/cache", url.Values{"limit": {strconv.Itoa(*limit)}})
		if err != nil {
			return err
		}
		if *format == "json" {
			_, err = fmt.Printf("%s\n", answer.Data)
			return err
		}
		var all []contents.Contents
		if err := json.Unmarshal(answer.Data, &all); err != nil {
			return err
		}
		return render.Caches(os.Stdout, all, terminal.Width(os.Stdout))
	}
}

// cacheDropCommand declares promwarp cache drop.
func cacheDropCommand(app *kingpin.Application) (string, func(context.Context) error) {
	cmd := clause(app, "cache", cacheHelp).Command("drop", "Have a promwarp that was started with --web.enable-admin-api forget samples, so that it fetches them again.").HelpLong(`Examples:
  promwarp cache drop '{job="a"}' --start=-2d --end=-1d
  promwarp cache drop --all
`)
	var server client.Flags
	selectors := cmd.Arg("selector", "Drop of what may match; all selectors if there is none.").Strings()
	start := cmd.Flag("start", "Drop from here on.").PlaceHolder("TIME").String()
	end := cmd.Flag("end", "Drop up to here.").PlaceHolder("TIME").String()
	all := cmd.Flag("all", "Drop everything.").Bool()
	server.Add(cmd, "")
	return cmd.FullCommand(), func(ctx context.Context) error {
		form := url.Values{"match[]": *selectors}
		for flag, text := range map[string]string{"start": *start, "end": *end} {
			if text == "" {
				continue
			}
			t, err := parseWhen(text, time.Now())
			if err != nil {
				return config.Usagef("--%s: %w", flag, err)
			}
			form.Set(flag, stamp(t))
		}
		switch given := len(*selectors) > 0 || len(form) > 1; {
		case !given && !*all:
			return config.Usagef("say what to drop: selectors, --start and --end bound it, --all drops everything")
		case given && *all:
			return config.Usagef("--all drops everything: leave it out, or the selectors, --start and --end")
		case *all:
			form.Set("all", "true")
		}
		c, err := server.Client("url", server.URL)
		if err != nil {
			return err
		}
		answer, err := c.Ask(ctx, "/api/v1/admin/cache/drop", form)
		if err != nil {
			return err
		}
		var dropped cache.Dropped
		if err := json.Unmarshal(answer.Data, &dropped); err != nil {
			return err
		}
		_, err = fmt.Printf("dropped %d tiles of %d selectors\n", dropped.Tiles, dropped.Selectors)
		return err
	}
}
