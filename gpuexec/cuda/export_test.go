package cuda

var (
	ForbiddenFile = forbiddenFile
	CannotStart   = cannotStart
	ReleaseIn     = releaseIn
)

// CallNames are the functions of the driver that the binding knows.
func CallNames() []string { return callNames }
