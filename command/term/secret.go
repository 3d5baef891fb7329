package term

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// maxLine is the maximum length of a line of standard input, in bytes.
const maxLine = 1 << 20

// Secret reads a line from standard input, without echo on a terminal.
func (e *Env) Secret(prompt string) (string, error) {
	f, ok := e.In.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return e.Line(context.Background())
	}
	fmt.Fprint(e.Err, prompt)
	text, err := term.ReadPassword(int(f.Fd()))
	fmt.Fprintln(e.Err)
	if err != nil {
		return "", fmt.Errorf("read from the terminal: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// Line reads a line from standard input. It returns when ctx ends.
func (e *Env) Line(ctx context.Context) (string, error) {
	type answer struct {
		text string
		err  error
	}
	read := make(chan answer, 1) // when ctx ends, the goroutine stays blocked until the command exits
	go func() {
		text, err := bufio.NewReader(io.LimitReader(e.In, maxLine)).ReadString('\n')
		read <- answer{strings.TrimSpace(text), err}
	}()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case a := <-read:
		if a.err != nil && !errors.Is(a.err, io.EOF) {
			return "", fmt.Errorf("read standard input: %w", a.err)
		}
		if a.text == "" {
			return "", errors.New("standard input is empty")
		}
		return a.text, nil
	}
}
