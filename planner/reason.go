package planner

import "strings"

const (
	reasonIdle   = "it reads no samples"
	reasonNoStep = "it is evaluated at no step"
	reasonScalar = "a scalar is no vector"

	inputStays = "its input stays with Prometheus's engine: "
	// maxReasonText is the most bytes of an expression that is printed in a reason.
	maxReasonText = 200
)

// deepReason is how the reasons of nodes begin that are far above the one that is the cause.
// Those of the nodes above them do not grow any more.
var deepReason = strings.Repeat(inputStays, 8)

// stays is the reason of a node whose input stays for a reason.
func stays(reason string) string {
	if strings.HasPrefix(reason, deepReason) {
		return reason
	}
	return inputStays + reason
}

// isIdle reports whether a reason is that there is nothing to evaluate.
func isIdle(reason string) bool { return reason == reasonIdle || reason == reasonNoStep }
