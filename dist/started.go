package dist

import "strconv"

// Started says as one of how many processes this one was started, and which variable of the
// environment says so: that of the launcher that [ReadLauncher] recognises. A process that no
// launcher has started is one.
func Started(getenv func(string) string) (processes int, variable string) {
	s, found := sourceOf(getenv)
	n, err := strconv.Atoi(getenv(s.world))
	switch {
	case !found && getenv("PMIX_RANK") != "" && getenv("PMIX_RANK") != "0":
		rank, _ := strconv.Atoi(getenv("PMIX_RANK"))
		return rank + 1, "PMIX_RANK" // at least
	case !found || err != nil || n <= 1:
		return 1, "" // or a launcher inside of another one
	}
	return n, s.world
}
