package dist

import "strconv"

// Started returns the number of processes that this one was started with, and the environment
// variable that says so, which is that of the launcher recognised by [ReadLauncher]. Without a
// launcher, the number is one.
func Started(getenv func(string) string) (processes int, variable string) {
	s, found := sourceOf(getenv)
	n, err := strconv.Atoi(getenv(s.world))
	switch {
	case !found && getenv("PMIX_RANK") != "" && getenv("PMIX_RANK") != "0":
		rank, _ := strconv.Atoi(getenv("PMIX_RANK"))
		return rank + 1, "PMIX_RANK" // a lower bound
	case !found || err != nil || n <= 1:
		return 1, "" // or one launcher inside another
	}
	return n, s.world
}
