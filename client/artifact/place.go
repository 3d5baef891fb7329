package artifact

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/internal/safefs"
)

// place is the destination of an artifact.
type place struct {
	task   *Task
	dir    string // relative to the allocation's directory
	as     string // name of the file in dir; "" keeps the names of the download
	target string // relative to the task's directory, for results
}

// newPlace checks a destination, which is relative to the task's directory.
func newPlace(t *Task, destination string, file bool) (place, error) {
	if strings.ContainsFunc(destination, unicode.IsControl) {
		return place{}, fmt.Errorf("destination %q contains a control character", destination)
	}
	if strings.Contains(destination, "${") {
		return place{}, fmt.Errorf("destination %q contains a reference that is not defined", destination)
	}
	at := path.Join(t.Dir.Name(), destination)
	first, rest, _ := strings.Cut(at, "/")
	if path.IsAbs(destination) || first != t.Dir.Name() && first != allocdir.SharedName {
		return place{}, fmt.Errorf("destination %q is outside the task's directory and the shared directory of the "+
			"allocation: use a path such as local/, or ../alloc/data/", destination)
	}
	if file && (rest == "" || strings.HasSuffix(destination, "/")) {
		return place{}, fmt.Errorf("destination %q is a directory, but mode is file: add the name of the file", destination)
	}
	p := place{task: t, dir: at, target: path.Clean(destination)}
	if file {
		p.dir, p.as = path.Dir(at), path.Base(at)
	}
	if err := p.reserved(p.dir); err != nil {
		return place{}, err
	}
	return p, p.reserved(at)
}

// reserved returns an error if a path of the allocation belongs to the agent.
func (p place) reserved(at string) error {
	private := path.Join(p.task.Dir.Name(), allocdir.PrivateName)
	logs := path.Join(allocdir.SharedName, allocdir.LogsName)
	stages := path.Join(p.task.Dir.Name(), stagePrefix)
	for _, dir := range []string{private, logs} {
		if safefs.Within(at, dir) {
			return fmt.Errorf("destination: %q in the allocation is a directory of the agent: choose another", at)
		}
	}
	if strings.HasPrefix(at, stages) {
		return errors.New("destination is a directory of a download: choose another")
	}
	return nil
}
