package httpapi

import (
	"errors"
	"io"
	"net/http"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad"
)

// Bounds of what a body may grow to when it is decoded: "{}" is two bytes, the task
// it stands for some thousand.
const (
	maxObjects = 100_000 // objects and lists of a body
	maxParts   = 5_000   // groups and tasks of a job
)

var errTooManyObjects = errors.New("too many objects")

// objectCounter ends the reading of JSON that holds too many objects and lists.
type objectCounter struct {
	in      io.Reader
	left    int
	text    bool // inside a string
	escaped bool // after a backslash in it
}

// Read counts what it passes on.
func (c *objectCounter) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	for _, b := range p[:n] {
		switch {
		case c.escaped:
			c.escaped = false
		case c.text:
			c.escaped = b == '\\'
			c.text = b != '"'
		case b == '"':
			c.text = true
		case b == '{' || b == '[':
			c.left--
		}
	}
	if c.left < 0 {
		return 0, errTooManyObjects
	}
	return n, err
}

// boundParts refuses a job of more groups and tasks than anybody has, before each is
// filled with its defaults.
func boundParts(j *api.Job) error {
	n := len(j.TaskGroups)
	for _, tg := range j.TaskGroups {
		n += len(tg.Tasks)
	}
	if n > maxParts {
		return nomad.Errorf(http.StatusBadRequest, "the job has %d groups and tasks, %d are the most", n, maxParts)
	}
	return nil
}
