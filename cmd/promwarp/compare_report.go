package main

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/render"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/terminal"
	"github.com/promwarp/promwarp/engine/compare"
)

// reportComparison prints rows as a table of so many columns, what differs, and a summary.
func reportComparison(w io.Writer, rows []compare.Row, width int, style terminal.Style) error {
	cells := [][]string{{"PROMETHEUS", "FIRST", "REPEATED", "SPEED-UP", "ANSWER", "QUERY"}}
	for _, r := range rows {
		again := times(r.Prometheus, r.Repeated)
		if r.Remembered {
			again = "remembered"
		}
		cells = append(cells, []string{
			ms(r.Prometheus), ms(r.First), ms(r.Repeated), times(r.Prometheus, r.First) + ", " + again,
			string(r.Verdict), strings.Join(strings.Fields(r.Query), " "),
		})
	}
	if err := render.Table(w, cells, len(cells[0])-1, width); err != nil {
		return err
	}
	for _, r := range rows {
		switch {
		case r.Verdict == compare.Different:
			fmt.Fprintf(w, "\n%s: %s\n  %s\n", style.Bad(string(r.Verdict)), r.Query, r.Detail)
			if r.Hint != "" {
				fmt.Fprintf(w, "  %s\n", style.Note(r.Hint))
			}
		case r.Detail != "":
			fmt.Fprintf(w, "\n%s: %s\n  %s\n", style.Note(string(r.Verdict)), r.Query, r.Detail)
		}
	}
	return nil
}

// summarizeComparison prints how many answers are the same, and the means of the speed-ups.
func summarizeComparison(w io.Writer, rows []compare.Row, style terminal.Style) {
	count := map[compare.Verdict]int{}
	first, repeated, slowest := 0.0, 0.0, 0.0
	n, again, remembered, empty := 0, 0, 0, 0
	for _, r := range rows {
		count[r.Verdict]++
		if r.Verdict == compare.Same && r.Repeated > 0 && r.First > 0 && r.Prometheus > 0 {
			first += math.Log(r.Prometheus / r.First)
			if r.Remembered {
				remembered++
			} else {
				repeated += math.Log(r.Prometheus / r.Repeated)
				again++
			}
			slowest = max(slowest, r.Prometheus)
			n++
		}
		if r.Empty {
			empty++
		}
	}
	text := fmt.Sprintf("%d of %d answers are the same to the bit", count[compare.Same], len(rows))
	if count[compare.Different] > 0 {
		text = style.Bad(fmt.Sprintf("%s, %d differ", text, count[compare.Different]))
	} else if count[compare.Same] > 0 {
		text = style.Good(text)
	}
	fmt.Fprintf(w, "\n%s", text)
	if n := count[compare.NotCompared] + count[compare.Undecided]; n > 0 {
		fmt.Fprintf(w, ", %d could not be compared", n)
	}
	fmt.Fprintln(w, ".")
	if empty > 0 {
		fmt.Fprintf(w, "%d of them are empty, which says little: --start and --end set the time that is asked for.\n", empty)
	}
	if n > 0 {
		fmt.Fprintf(w, "promwarp is %s as fast at first", times(math.Exp(first/float64(n)), 1))
		if again > 0 {
			fmt.Fprintf(w, " and %s when asked again", times(math.Exp(repeated/float64(again)), 1))
		}
		fmt.Fprintln(w, " (geometric means).")
	}
	if remembered > 0 {
		fmt.Fprintf(w, "Remembered results answer %d of them when asked again: that time is no speed-up of evaluating. --cache.results-bytes=0 remembers none.\n", remembered)
	}
	if n > 0 && slowest < quickQuery {
		fmt.Fprintf(w, "Prometheus takes less than %.0f ms for each of them: promwarp is for queries that take longer.\n", quickQuery)
	}
}

// quickQuery is the time of a query in ms below which promwarp has nothing to save.
const quickQuery = 10.0

func ms(f float64) string {
	if f == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", f)
}

func times(a, b float64) string {
	if a == 0 || b == 0 {
		return "-"
	}
	if a/b < 0.1 {
		return fmt.Sprintf("%.2g×", a/b)
	}
	return fmt.Sprintf("%.1f×", a/b)
}
