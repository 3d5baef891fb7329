package taskenv

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hcldec"
	hcljson "github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
)

// Config fills in the references of a task's config block and decodes it by the
// schema of its driver. A reference to a name of ours that does not exist is an
// error; so is an argument that the schema does not have.
func (e *Env) Config(config map[string]any, spec hcldec.Spec) (cty.Value, error) {
	filled, unknown := e.fill(config)
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return cty.NilVal, fmt.Errorf("config: no value for ${%s}", strings.Join(slices.Compact(unknown), "}, ${"))
	}
	if err := known(filled, spec); err != nil {
		return cty.NilVal, err
	}
	src, err := json.Marshal(filled)
	if err != nil {
		return cty.NilVal, fmt.Errorf("config: %w", err)
	}
	file, diags := hcljson.Parse(src, "config")
	if diags.HasErrors() {
		return cty.NilVal, faults(diags)
	}
	// Without a context strings are literal: the references are filled in already.
	val, diags := hcldec.Decode(file.Body, spec, nil)
	if diags.HasErrors() {
		return cty.NilVal, faults(diags)
	}
	return val, nil
}

// known refuses arguments that the schema does not have, by name.
func known(config any, spec hcldec.Spec) error {
	given, ok := config.(map[string]any)
	if !ok {
		return nil
	}
	schema := hcldec.ImpliedSchema(spec)
	var names []string
	for _, a := range schema.Attributes {
		names = append(names, a.Name)
	}
	for _, b := range schema.Blocks {
		names = append(names, b.Type)
	}
	slices.Sort(names)
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(names, name) {
			errs = append(errs, fmt.Errorf("unknown argument %q in config; expected one of: %s", name, strings.Join(names, ", ")))
		}
	}
	return errors.Join(errs...)
}

// fill returns v with the references of all its strings filled in, and those
// that nothing is known of.
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

// fillTyped is fill for lists and maps that came typed.
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

// faults makes one error of all diagnostics. Their source is generated, so the
// places they name would mean nothing to anybody.
func faults(diags hcl.Diagnostics) error {
	var errs []error
	for _, d := range diags {
		if d.Severity == hcl.DiagError {
			errs = append(errs, fmt.Errorf("config: %s: %s", d.Summary, d.Detail))
		}
	}
	return errors.Join(errs...)
}
