package taskenv

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/jobspec"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Config interpolates a task's config block and decodes it with the schema of its driver.
// Unknown references with a Nomad prefix, and arguments that are not in the schema, are errors.
func (e *Env) Config(config map[string]any, spec hcldec.Spec) (cty.Value, error) {
	block, err := e.Block(config)
	if err != nil {
		return cty.NilVal, err
	}
	return drivers.Decode(block, spec)
}

// Block interpolates a task's config block, and evaluates calls of functions in references, such as
// ${upper(node.unique.name)}. Unknown references with a Nomad prefix, and calls without a value, are errors.
func (e *Env) Block(config map[string]any) (map[string]any, error) {
	calling := e.calling()
	filled, unknown := calling.fill(config)
	if err := calling.calls.err; err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	if slices.Contains(unknown, tooLarge) {
		return nil, fmt.Errorf("config: the values of its references have more than %d MiB", maxInserted>>20)
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return nil, fmt.Errorf("config: no value for ${%s}", strings.Join(slices.Compact(unknown), "}, ${"))
	}
	block, ok := filled.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("config is a %T, want a block", filled)
	}
	return block, nil
}

// Isolated returns a task's config block for drivers.Isolator: interpolated, except for references to
// the task's own directories. A variable that the job has given another value is interpolated.
func (e *Env) Isolated(config map[string]any) map[string]any {
	vars := map[string]string{"NOMAD_ALLOC_DIR": e.paths.Alloc, "NOMAD_TASK_DIR": e.paths.Task, "NOMAD_SECRETS_DIR": e.paths.Secrets}
	kept := &Env{vars: maps.Clone(e.vars), node: e.node, secrets: e.secrets, calls: e.calling().calls, inserted: e.inserted}
	for _, name := range drivers.OwnDirectories() {
		if vars[name] != "" && vars[name] == e.vars[name] {
			delete(kept.vars, name)
		}
	}
	filled, _ := kept.fill(config) // Config returns the unknown references
	block, _ := filled.(map[string]any)
	return block
}

// calls evaluates the calls of functions in a config.
type calls struct {
	all *jobspec.Calls
	err error // the first fault
}

// calling returns an Env that also evaluates calls of functions.
func (e *Env) calling() *Env {
	out := *e
	out.calls = &calls{all: jobspec.NewCalls(func(ref string) (string, bool) {
		name, _ := reference(ref + "}")
		return e.lookup(name)
	})}
	return &out
}

// call evaluates the call at the beginning of s, which follows "${". The length is 0 if there is none.
func (c *calls) call(s string) (value string, length int) {
	if c == nil {
		return "", 0
	}
	value, length, err := c.all.Call(s)
	if c.err == nil {
		c.err = err
	}
	return value, length
}

// fill returns v with all strings interpolated, and the unknown references.
func (e *Env) fill(v any) (any, []string) {
	switch v := v.(type) {
	case string:
		return e.expand(v)
	case map[string]any:
		out := make(map[string]any, len(v))
		var unknown []string
		for key, value := range v {
			filled, missing := e.fill(value)
			out[e.Expand(key)] = filled
			unknown = append(unknown, missing...)
		}
		return out, unknown
	case []any:
		out := make([]any, len(v))
		var unknown []string
		for i, value := range v {
			filled, missing := e.fill(value)
			out[i] = filled
			unknown = append(unknown, missing...)
		}
		return out, unknown
	case []string, []map[string]any, map[string]string:
		return e.fillTyped(v)
	}
	return v, nil
}

// fillTyped is fill for typed lists and maps.
func (e *Env) fillTyped(v any) (any, []string) {
	switch v := v.(type) {
	case []string:
		return fillList(e, v)
	case []map[string]any:
		return fillList(e, v)
	case map[string]string:
		plain := make(map[string]any, len(v))
		for key, value := range v {
			plain[key] = value
		}
		return e.fill(plain)
	}
	return v, nil
}

func fillList[T any](e *Env, list []T) (any, []string) {
	plain := make([]any, len(list))
	for i, value := range list {
		plain[i] = value
	}
	return e.fill(plain)
}
