// Package restarts contains only tests: runs with several processes under launchers that restart
// all of them when one was killed. Such a run must end with the same weights as an undisturbed one.
package restarts
