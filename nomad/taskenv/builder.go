// Package taskenv builds the environment of a task and interpolates ${...} references in the
// job, as in Nomad 2.0.
//
// Layers, from lowest to highest precedence: built-in variables, meta, hooks below the env block,
// host environment (only names that nothing else sets, never NOMAD_*), the task's env block, other
// hooks. Values of the env block may refer to the lower layers.
//
// References: ${NAME} and ${env.NAME} are variables of the task. ${attr.x} and ${meta.x} are
// attributes and meta of the node; ${node.unique.id} and others are its fields. ${secret.NAME.KEY} is a value of a
// secret block, which is not a variable. Unknown references are left unchanged, since they may be meant for the task's
// shell.
//
// Names has the names of services in identities, which clients and servers compute alike (name.go).
//
// The package starts no goroutine and accesses no files. It logs nothing.
package taskenv

import (
	"maps"
	"strings"
	"sync"

	"github.com/open-nomad/open-nomad/nomad"
)

// Subject is the task whose environment is built.
type Subject struct {
	Node   *nomad.Node // nil only for a part of Names
	Region string
	Alloc  *nomad.Allocation
	Task   *nomad.Task
	// Network is that of the allocation's network namespace, nil without one.
	Network *nomad.AllocNetworkStatus
}

// Paths are the directories, as the task sees them.
type Paths struct {
	Alloc   string // NOMAD_ALLOC_DIR
	Task    string // NOMAD_TASK_DIR
	Secrets string // NOMAD_SECRETS_DIR
}

// Builder collects the layers of one task's environment. Its methods may be called
// concurrently.
type Builder struct {
	mu      sync.Mutex
	built   *Env // of the current layers, nil until Build is called
	subject Subject
	paths   Paths
	most    int // bytes that references insert at once
	host    map[string]map[string]string
	hooks   map[string]map[string]string
	below   map[string]bool // hooks whose variables are below the task's env block
	order   []string        // hooks in the order of their first call
	secrets map[string]string
}

// New returns a Builder for a task.
func New(s Subject) *Builder {
	return &Builder{
		subject: s, most: maxInserted, host: map[string]map[string]string{}, hooks: map[string]map[string]string{}, below: map[string]bool{},
	}
}

// SetAlloc sets a newer version of the allocation and its task.
func (b *Builder) SetAlloc(a *nomad.Allocation, t *nomad.Task) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.subject.Alloc, b.subject.Task, b.built = a, t, nil
}

// SetPaths sets the directories of the task.
func (b *Builder) SetPaths(p Paths) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paths, b.built = p, nil
}

// SetHook replaces the variables of the named hook.
func (b *Builder) SetHook(hook string, env map[string]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.hooks[hook]; !known {
		b.order = append(b.order, hook)
	}
	b.hooks[hook], b.built = maps.Clone(env), nil
}

// SetBelow puts the variables of the named hook below the task's env block, which can refer to them and replace them.
func (b *Builder) SetBelow(hook string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.below[hook], b.built = true, nil
}

// SetSecrets replaces the values of ${secret.NAME.KEY}, by NAME.KEY. They are not variables of the task.
func (b *Builder) SetSecrets(values map[string]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.secrets, b.built = maps.Clone(values), nil
}

// SetHost replaces the host environment set by the named hook.
func (b *Builder) SetHost(hook string, env map[string]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.host[hook], b.built = maps.Clone(env), nil
}

// Build returns the environment of the current layers. Callers share it until a layer changes: every hook of a
// task asks for it.
func (b *Builder) Build() *Env {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.built == nil {
		b.built = b.build()
	}
	return b.built
}

// build builds the environment. The caller holds mu.
func (b *Builder) build() *Env {
	e := &Env{vars: map[string]string{}, node: nodeRefs{b.subject.Node, b.subject.Region}, paths: b.paths, secrets: b.secrets,
		tokens: b.tokens(), inserted: newInserted(b.most)}
	b.builtIns(e.vars)
	b.meta(e)
	b.copyHooks(e.vars, true)
	for _, host := range b.host {
		for name, value := range host {
			if _, set := e.vars[name]; !set && !strings.HasPrefix(name, "NOMAD_") {
				e.vars[name] = value
			}
		}
	}
	if vars := b.subject.Task.Env; len(vars) > 0 {
		below := &Env{vars: maps.Clone(e.vars), node: e.node, secrets: e.secrets, inserted: e.inserted}
		for name, value := range vars {
			e.vars[below.Expand(name)] = below.Expand(value)
		}
	}
	b.copyHooks(e.vars, false)
	return e
}

// copyHooks adds the variables of the hooks that are below the task's env block, or of the others.
func (b *Builder) copyHooks(vars map[string]string, below bool) {
	for _, hook := range b.order {
		if b.below[hook] == below {
			maps.Copy(vars, b.hooks[hook])
		}
	}
}

// meta adds the meta of job, group and task; the task has the highest precedence.
func (b *Builder) meta(e *Env) {
	job := b.subject.Alloc.Job
	meta := map[string]string{}
	if job != nil {
		if job.Dispatched && job.ParameterizedJob != nil {
			for _, key := range job.ParameterizedJob.MetaOptional {
				meta[key] = ""
			}
		}
		maps.Copy(meta, job.Meta)
		if group := job.TaskGroup(b.subject.Alloc.TaskGroup); group != nil {
			maps.Copy(meta, group.Meta)
		}
	}
	maps.Copy(meta, b.subject.Task.Meta)
	for key, value := range meta {
		value = e.Expand(value)
		e.vars["NOMAD_META_"+clean(strings.ToUpper(key))] = value
		e.vars["NOMAD_META_"+clean(key)] = value
	}
}

// clean replaces characters that are invalid in variable names by underscores.
func clean(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, name)
}
