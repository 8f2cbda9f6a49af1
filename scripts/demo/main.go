//go:build linux

// Command demo makes the animation of the README: it runs examples/digits in a terminal, stops it
// with Ctrl-C, runs it again, and draws what the terminal shows in real time.
//
//	go run ./scripts/demo [-o docs/demo.gif]
//
// The timing is that of the run; only the typing and the pauses between the commands are
// artificial. The temporary folder that the program runs in is shown as ~/digits.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"image/gif"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	columns, rows = 90, 24
	shownFolder   = "~/digits"
	frameTime     = 200 * time.Millisecond // output within this time is one image
	keyTime       = 50 * time.Millisecond
	pause         = 1200 * time.Millisecond // before each command
	lastPause     = 6 * time.Second
	stopAt        = "epoch 8 " // Ctrl-C is sent when the screen shows this
)

func main() {
	out := flag.String("o", filepath.Join("docs", "demo.gif"), "the file to write")
	flag.Parse()
	if err := record(*out); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func record(path string) error {
	dir, err := os.MkdirTemp("", "demo")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "digits")
	if out, err := exec.Command("go", "build", "-o", program, "./examples/digits").CombinedOutput(); err != nil {
		return fmt.Errorf("%w in the root of the repository:\n%s", err, out)
	}
	film, err := newFilm()
	if err != nil {
		return err
	}
	s := newScreen(columns, rows)
	typed(film, s, "./digits")
	code, err := play(film, s, program, dir, stopAt)
	if err != nil || code != 128+int(syscall.SIGINT) {
		return fmt.Errorf("the run that Ctrl-C stops ended with code %d: %w\n%s", code, err, s)
	}
	typed(film, s, "./digits    # the same again")
	if code, err = play(film, s, program, dir, ""); err != nil || code != 0 {
		return fmt.Errorf("the resumed run ended with code %d: %w\n%s", code, err, s)
	}
	film.add(s, lastPause)
	if text := s.String(); strings.Contains(text, dir) {
		return errors.New("the screen shows " + dir)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(gif.EncodeAll(f, film.gif()), f.Close()); err != nil {
		return err
	}
	fmt.Printf("%s: %d pictures, %v\n", path, len(film.pictures), film.length().Round(time.Second))
	return nil
}

// typed shows a command being typed.
func typed(f *film, s *screen, command string) {
	s.write([]byte("$ "), true)
	f.add(s, pause)
	for _, key := range command {
		s.write([]byte(string(key)), true)
		f.add(s, keyTime)
	}
	s.write([]byte("\r\n"), false)
}

// play runs the program in its own terminal and films its output until it exits. When the screen
// shows stop, play sends Ctrl-C.
func play(f *film, s *screen, program, dir, stop string) (code int, err error) {
	terminal, far, err := openTerminal(columns-len("^C"), rows) // leaves room for ^C behind the progress line
	if err != nil {
		return 0, err
	}
	defer terminal.Close()
	c := exec.Command(program)
	c.Dir, c.Stdin, c.Stdout, c.Stderr = dir, far, far, far
	c.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := errors.Join(c.Start(), far.Close()); err != nil {
		return 0, err
	}
	chunks := make(chan []byte)
	go func() {
		defer close(chunks)
		for {
			chunk := make([]byte, 1<<16)
			n, err := terminal.Read(chunk)
			if n > 0 {
				chunks <- bytes.ReplaceAll(chunk[:n], []byte(dir), []byte(shownFolder))
			}
			if err != nil { // EIO: the program has ended
				return
			}
		}
	}()
	shown := time.Now() // time of the last image
	for chunk := range chunks {
		if now := time.Now(); now.Sub(shown) >= frameTime { // the screen showed its content until now
			f.add(s, now.Sub(shown))
			shown = now
		}
		s.write(chunk, false)
		if stop != "" && strings.Contains(s.String(), stop) {
			stop = ""
			if _, err := io.WriteString(terminal, "\x03"); err != nil {
				return 0, err
			}
		}
	}
	if _, ok := errors.AsType[*exec.ExitError](c.Wait()); !ok && !c.ProcessState.Success() {
		return 0, errors.New("the program could not be waited for")
	}
	return c.ProcessState.ExitCode(), nil
}
