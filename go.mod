module github.com/gotrainer/gotrainer

go 1.26
