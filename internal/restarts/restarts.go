// Package restarts has only tests: runs on several processes under launchers that start all again
// when one was killed, which must end with the weights of a run that nobody has touched.
package restarts
