package term

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
)

// Confirm prints a question and reports whether the user answers y or yes. The end of the input means no.
func (e *Env) Confirm(question string) bool {
	e.Printf("%s ", question)
	answer, _ := bufio.NewReader(e.In).ReadString('\n') // an error means no
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
