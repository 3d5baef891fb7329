package template

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/internal/render"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
)

// entry is a template whose references are resolved.
type entry struct {
	t      *nomad.Template
	source string // path of the host, "" for an embedded text
	to     place
	mode   fs.FileMode
	wait   render.Wait
	hash   string // of all that its content and file depend on, except for data
}

// place is a file in the task's directory, or in the one that the tasks share.
type place struct {
	shared bool
	name   string // below the directory
}

// String returns the name of the template in messages.
func (e *entry) String() string { return fmt.Sprintf("template with destination %q", e.t.DestPath) }

// resolve checks the templates after interpolation. The servers have checked them before.
func (t *Templates) resolve(list []*nomad.Template, env *taskenv.Env, dir *allocdir.Task) ([]*entry, error) {
	var out []*entry
	var errs []error
	taken := map[place]bool{}
	for _, tmpl := range list {
		e, err := t.entry(tmpl, env, dir)
		if err == nil && taken[e.to] {
			err = errors.New("another template has the same destination: change one of them")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("template with destination %q: %w", tmpl.DestPath, err))
			continue
		}
		taken[e.to] = true
		out = append(out, e)
	}
	return out, errors.Join(errs...)
}

func (t *Templates) entry(tmpl *nomad.Template, env *taskenv.Env, dir *allocdir.Task) (*entry, error) {
	paths := pathsOf(env, dir)
	e := &entry{t: tmpl, wait: t.deps.Config.wait(tmpl.Wait)}
	var err error
	if e.to, err = paths.destination(env.Expand(tmpl.DestPath)); err != nil {
		return nil, fmt.Errorf("destination: %w", err)
	}
	if e.mode, err = parsePerms(tmpl.Perms); err != nil {
		return nil, err
	}
	if tmpl.EmbeddedTmpl == "" {
		if e.source, err = t.source(paths, env.Expand(tmpl.SourcePath)); err != nil {
			return nil, fmt.Errorf("source: %w", err)
		}
	}
	return e, e.setHash()
}

// source returns the host path of a source.
func (t *Templates) source(p paths, name string) (string, error) {
	if name == "" {
		return "", errors.New("it is missing, and so is data: set one of them")
	}
	if t.deps.Config.DisableFileSandbox && path.IsAbs(name) && p.view(name) == name {
		return name, nil
	}
	at, err := p.inside(name)
	if err != nil {
		return "", err
	}
	switch first, _, _ := strings.Cut(at.name, "/"); {
	case at.shared, first == allocdir.LocalName, first == allocdir.SecretsName, first == allocdir.TmpName:
		return p.host(at), nil
	}
	return "", errors.New("templates can read local, secrets, tmp and ../alloc only: move the file there")
}

// parsePerms parses perms. Bits other than those of reading, writing and executing are refused.
func parsePerms(perms string) (fs.FileMode, error) {
	if perms == "" {
		return 0o644, nil
	}
	n, err := strconv.ParseUint(perms, 8, 32)
	if err != nil || n > 0o777 {
		return 0, fmt.Errorf("perms %q: use an octal number up to 777, such as 0644", perms)
	}
	return fs.FileMode(n), nil
}

// setHash sets the hash. The change mode and the wait are not part of it.
func (e *entry) setHash() error {
	text, err := json.Marshal([]any{e.t.EmbeddedTmpl, e.source, e.to.shared, e.to.name, e.mode, e.t.Uid, e.t.Gid,
		e.t.LeftDelim, e.t.RightDelim, e.t.ErrMissingKey, e.t.Once, e.t.Envvars})
	if err != nil {
		return fmt.Errorf("hash of the template: %w", err)
	}
	sum := sha256.Sum256(text)
	e.hash = hex.EncodeToString(sum[:])
	return nil
}

// paths maps paths of a job to the directories of its task.
type paths struct {
	dir   *allocdir.Task
	views [][2]string // paths that the task sees, and those below the task's directory
}

func pathsOf(env *taskenv.Env, dir *allocdir.Task) paths {
	return paths{dir, [][2]string{
		{env.Var("NOMAD_TASK_DIR"), allocdir.LocalName}, {env.Var("NOMAD_SECRETS_DIR"), allocdir.SecretsName},
		{env.Var("NOMAD_ALLOC_DIR"), "../" + allocdir.SharedName},
		{dir.Path(), "."}, {dir.SharedPath(), "../" + allocdir.SharedName},
	}}
}

// view replaces the beginning of a path that the task sees by its name below the task's directory.
func (p paths) view(name string) string {
	for _, v := range p.views {
		if below, ok := strings.CutPrefix(path.Clean(name), v[0]+"/"); ok && v[0] != "" {
			return path.Join(v[1], below)
		}
	}
	return name
}

// inside returns the place of a path. Other paths begin at the task's directory, also with a
// slash, as in Nomad.
func (p paths) inside(name string) (place, error) {
	switch {
	case name == "":
		return place{}, errors.New("it is empty")
	case strings.ContainsRune(name, 0):
		return place{}, errors.New("it contains a NUL character")
	case strings.HasSuffix(name, "/"):
		return place{}, errors.New("it is a directory: add the name of the file")
	}
	name = p.view(name)
	if path.IsAbs(name) {
		name = path.Clean(name)[1:]
	}
	name = path.Clean(name)
	if below, ok := strings.CutPrefix(name, "../"+allocdir.SharedName+"/"); ok {
		return place{shared: true, name: below}, nil
	}
	switch first, _, _ := strings.Cut(name, "/"); first {
	case "..":
		return place{}, errors.New("the path leaves the directories of the task: use one below local, secrets or ../alloc")
	case allocdir.PrivateName:
		return place{}, errors.New("the directory private is not for tasks")
	case ".", "":
		return place{}, errors.New("it is a directory: add the name of the file")
	}
	return place{name: name}, nil
}

// destination returns the place of a file to write. The directory of the logs belongs to the agent, which opens
// files there by name.
func (p paths) destination(name string) (place, error) {
	at, err := p.inside(name)
	if first, _, _ := strings.Cut(at.name, "/"); err == nil && at.shared && first == allocdir.LogsName {
		return place{}, errors.New("the directory alloc/logs belongs to the agent: choose another")
	}
	return at, err
}

// host returns the path of a place on the host.
func (p paths) host(at place) string {
	if at.shared {
		return path.Join(p.dir.SharedPath(), at.name)
	}
	return path.Join(p.dir.Path(), at.name)
}
