package arguments

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ArgsFiles says which files with arguments [ArgsFiles.Parse] reads before the command line. Such a
// file holds a command line: words separated by white space, without quotes. The zero value gives
// the behaviour of [Parse].
type ArgsFiles struct {
	Name string // args_filename: this file instead of the one named after the program
	// NoProgramFile ignores the file named after the program when Name is empty:
	// look_for_args_file=False. Otherwise that file is read if it exists. It has the name of the
	// program with the ending .args and is in the same folder: run_glue.args for run_glue.
	NoProgramFile bool
	// Flag is a flag that names further files, such as "--args_file": args_file_flag. They take
	// precedence over the other files, and later ones over earlier ones. Empty: no flag.
	Flag string
}

// Parse is like [Parse] but reads these files. If an argument is given more than once, the command
// line takes precedence over the files, and later files over earlier ones. A named file that does
// not exist is an error; Python ignores it.
func (f ArgsFiles) Parse(args []string, into ...any) error {
	words, err := f.read(args)
	if err != nil {
		return err
	}
	return parse(words, into)
}

// read puts the words of the files before those of the command line, and removes the flags that
// name files.
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
