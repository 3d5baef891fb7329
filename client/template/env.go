package template

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"strings"

	"github.com/hashicorp/go-envparse"
)

// maxEnv is the maximum size of a file of environment variables.
const maxEnv = 1 << 20

// environment reads the variables of the env = true templates. Later templates take precedence. A
// file that does not exist yet has none. Errors contain no line of a file.
func (r *run) environment() (map[string]string, error) {
	all := map[string]string{}
	for _, e := range r.list() {
		if !e.t.Envvars {
			continue
		}
		env, err := r.variables(e)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			//lint:ignore ST1005 the text is that of Nomad
			return nil, fmt.Errorf("Template failed to read environment variables: %v: %w", e, err)
		}
		maps.Copy(all, env)
	}
	return all, nil
}

func (r *run) variables(e *entry) (env map[string]string, err error) {
	err = r.open(e, func(f io.Reader) error {
		text, err := io.ReadAll(io.LimitReader(f, maxEnv+1))
		if err != nil {
			return err
		}
		if len(text) > maxEnv {
			return fmt.Errorf("the file is larger than %d bytes", maxEnv)
		}
		env, err = parseEnv(string(text))
		return err
	})
	return env, err
}

// parseEnv parses lines of NAME=value. Its errors contain the line's number only.
func parseEnv(text string) (map[string]string, error) {
	env, err := envparse.Parse(strings.NewReader(text))
	var bad *envparse.ParseError
	switch {
	case errors.As(err, &bad):
		return nil, fmt.Errorf("line %d is not NAME=value", bad.Line)
	case err != nil:
		return nil, errors.New("the file cannot be parsed")
	}
	for name, value := range env {
		if strings.ContainsRune(value, 0) {
			return nil, fmt.Errorf("the value of %s contains a NUL character", name)
		}
	}
	return env, nil
}
