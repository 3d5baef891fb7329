package term

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// errUnanswered is the error of a command that asked and was not answered.
var errUnanswered = errors.New("standard input ended before an answer: use -yes to answer yes without a question")

// Confirm prints a question and reports whether the user answers y or yes. The end of the input means no, and the
// command then fails, because a script that forgot -yes would not notice otherwise.
func (e *Env) Confirm(question string) bool {
	e.Printf("%s ", question)
	answer, err := bufio.NewReader(e.In).ReadString('\n')
	if e.unanswered = err != nil && answer == ""; e.unanswered {
		e.Printf("\n")
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

// Input reads the file that an argument names, or standard input for "-". More than limit
// bytes are an error.
func (e *Env) Input(name string, limit int) ([]byte, error) {
	from := e.In
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, int64(limit)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", name, err)
	case len(text) > limit:
		return nil, fmt.Errorf("%s is larger than %s", name, Bytes(uint64(limit)))
	}
	return text, nil
}
