// Package plan holds what planner and executors share: the node types of a plan and the table of functions.
package plan

// Explanation says how a query is evaluated. It marshals to JSON.
type Explanation struct {
	Query string `json:"query"`
}

// Tree renders the explanation as an indented tree, one node a line.
func (e *Explanation) Tree() string { return e.Query + "\n" }
