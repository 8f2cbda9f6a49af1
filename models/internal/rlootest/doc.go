// Package rlootest has the tests of RLOO in package grpo, whose golden files were made on another CPU
// than the others of that package.
package rlootest
