package httpapi

import (
	"errors"
	"io"
	"net/http"

	"github.com/open-nomad/open-nomad/api/workload"
	"github.com/open-nomad/open-nomad/nomad"
)

// Bounds of the objects decoded from a body. A short text can decode to large objects: "{}" is two
// bytes, and the task it decodes to is several thousand.
const (
	maxObjects = 100_000 // objects and arrays in a body
	maxParts   = 5_000   // groups and tasks in a job
)

var errTooManyObjects = errors.New("too many objects")

// objectCounter fails the reading of JSON that contains too many objects and arrays.
type objectCounter struct {
	in      io.Reader
	left    int
	text    bool // inside a string
	escaped bool // after a backslash in a string
}

// Read implements io.Reader. It counts the objects and arrays in the data.
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

// boundParts returns an error if the job has more than maxParts groups and tasks. It runs before
// defaults are filled in.
func boundParts(j *workload.Job) error {
	n := len(j.TaskGroups)
	for _, tg := range j.TaskGroups {
		n += len(tg.Tasks)
	}
	if n > maxParts {
		return nomad.Errorf(http.StatusBadRequest, "the job has %d groups and tasks: the limit is %d", n, maxParts)
	}
	return nil
}
