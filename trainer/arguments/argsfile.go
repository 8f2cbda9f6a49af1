package arguments

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ArgsFiles says which files of arguments [ArgsFiles.Parse] reads before the command line. They
// hold a command line, words between white space without quotes. The zero value is [Parse].
type ArgsFiles struct {
	Name string // args_filename: this file instead of the program's
	// NoProgramFile leaves out the file of the program, where Name is empty:
	// look_for_args_file=False. Otherwise it is that with the name of the program and .args in
	// place of its ending, run_glue.args beside run_glue, and need not be there.
	NoProgramFile bool
	// Flag is a flag that names further files, such as "--args_file", which count more than the
	// others, a later one more than an earlier: args_file_flag. Empty: none.
	Flag string
}

// Parse is [Parse] with these files. What is said twice counts as the command line says it, else
// as the last file does. A file that is named and not there is an error; Python passes over it.
func (f ArgsFiles) Parse(args []string, into ...any) error {
	words, err := f.read(args)
	if err != nil {
		return err
	}
	return parse(words, into)
}

// read puts the words of the files before those of the command line, less the flags that name
// files.
func (f ArgsFiles) read(args []string) (words []string, err error) {
	var names []string
	switch program := strings.TrimSuffix(os.Args[0], filepath.Ext(os.Args[0])) + ".args"; {
	case f.Name != "":
		names = append(names, f.Name)
	case !f.NoProgramFile:
		if _, err := os.Stat(program); !errors.Is(err, fs.ErrNotExist) {
			names = append(names, program)
		}
	}
	var rest []string
	for i := 0; i < len(args); i++ {
		flag, name, hasName := strings.Cut(args[i], "=")
		if f.Flag == "" || len(flag) < 3 || !strings.HasPrefix(f.Flag, flag) {
			rest = append(rest, args[i])
			continue
		}
		if !hasName {
			if i++; i == len(args) || strings.HasPrefix(args[i], "-") {
				return nil, fmt.Errorf("arguments: %s has no value; want the name of a file of arguments", f.Flag)
			}
			name = args[i]
		}
		names = append(names, name)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("arguments: file of arguments: %w", err)
		}
		words = append(words, strings.Fields(string(text))...)
	}
	return append(words, rest...), nil
}
